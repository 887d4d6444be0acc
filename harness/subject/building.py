"""Creates `tf.distribute` strategies inside a client task; imports TensorFlow when called."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.subject.strategies import StrategyCase

__all__ = ["build"]

# Small enough to split the small models of scenarios; TensorFlow's own defaults only split variables of 256 KiB and
# more.
_SHARD_BYTES = 128


def build(case: StrategyCase) -> Any:
    """Create the strategy of this case on the devices that the simulator has set up."""
    return _BUILDERS[case.kind](case)


def _devices(case: StrategyCase) -> list[str]:
    kind = "GPU" if case.hardware == "gpu" or case.option == "nccl" else "CPU"
    return [f"{kind}:{index}" for index in range(case.devices)]


def _default(case: StrategyCase) -> Any:
    import tensorflow as tf

    return tf.distribute.get_strategy()


def _one_device(case: StrategyCase) -> Any:
    import tensorflow as tf

    return tf.distribute.OneDeviceStrategy(f"/device:{_devices(case)[0]}")


def _mirrored(case: StrategyCase) -> Any:
    import tensorflow as tf

    ops = {
        None: lambda: None,
        "hierarchical_copy": tf.distribute.HierarchicalCopyAllReduce,
        "reduction_to_one_device": tf.distribute.ReductionToOneDevice,
        "nccl": tf.distribute.NcclAllReduce,
    }
    return tf.distribute.MirroredStrategy(_devices(case), cross_device_ops=ops[case.option]())


def _central_storage(case: StrategyCase) -> Any:
    import tensorflow as tf

    return tf.distribute.experimental.CentralStorageStrategy(compute_devices=_devices(case), parameter_device="CPU:0")


def _multi_worker(case: StrategyCase) -> Any:
    import tensorflow as tf

    implementation = tf.distribute.experimental.CommunicationImplementation[(case.option or "auto").upper()]
    options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def _parameter_server(case: StrategyCase) -> Any:
    import tensorflow as tf

    partitioners = tf.distribute.experimental.partitioners
    partitioners_by_option: dict[str | None, Callable[[], Any]] = {
        None: lambda: None,
        "min_size": lambda: partitioners.MinSizePartitioner(min_shard_bytes=_SHARD_BYTES, max_shards=case.ps),
        "max_size": lambda: partitioners.MaxSizePartitioner(max_shard_bytes=_SHARD_BYTES, max_shards=case.ps),
        "fixed_shards": lambda: partitioners.FixedShardsPartitioner(num_shards=case.ps),
    }
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    return tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioners_by_option[case.option]())


def _tpu(case: StrategyCase) -> Any:
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


_BUILDERS: dict[str, Callable[[StrategyCase], Any]] = {
    "default": _default,
    "one_device": _one_device,
    "mirrored": _mirrored,
    "central_storage": _central_storage,
    "multi_worker": _multi_worker,
    "parameter_server": _parameter_server,
    "tpu": _tpu,
}
