"""`ParameterServerStrategy`: a chief schedules steps on workers, which read and update variables on ps tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.subject.strategies.protocol import StrategyCase, StrategyKind
from simulator import Topology

# Small enough to split the small models of scenarios; TensorFlow's own defaults only split variables of 256 KiB and
# more.
_SHARD_BYTES = 128


class _ParameterServer(StrategyKind):
    name = "parameter_server"
    order = 50
    form = r"-(?P<workers>[1-9]\d?)w(?P<ps>[1-9]\d?)p(?::(?P<option>min_size|max_size|fixed_shards))?"
    accepted = "parameter_server-WwPp"
    options = "parameter_server-2w2p:min_size, :max_size, :fixed_shards"
    examples = (
        "parameter_server-1w1p",
        "parameter_server-2w1p",
        "parameter_server-2w2p",
        "parameter_server-2w2p:min_size",
        "parameter_server-2w2p:max_size",
        "parameter_server-2w2p:fixed_shards",
    )
    synchronous = False
    clustered = True
    reads_config = True
    variables_on = "servers"
    steps_apart = "the strategy has no replicas that run in step"

    def replicas(self, case: StrategyCase) -> int:
        return case.devices

    def topology(self, case: StrategyCase) -> Topology:
        return Topology(chief=1, worker=case.workers, ps=case.ps, devices={"worker": case.device_text})

    def build(self, case: StrategyCase) -> Any:
        import tensorflow as tf

        kinds = tf.distribute.experimental.partitioners
        partitioners: dict[str | None, Callable[[], Any]] = {
            None: lambda: None,
            "min_size": lambda: kinds.MinSizePartitioner(min_shard_bytes=_SHARD_BYTES, max_shards=case.ps),
            "max_size": lambda: kinds.MaxSizePartitioner(max_shard_bytes=_SHARD_BYTES, max_shards=case.ps),
            "fixed_shards": lambda: kinds.FixedShardsPartitioner(num_shards=case.ps),
        }
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        return tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioners[case.option]())

    def replicas_seen(self, strategy: Any, case: StrategyCase) -> int:
        return case.replicas  # TensorFlow counts the devices of the chief's view, which say nothing of the workers

    def workers_seen(self, strategy: Any, case: StrategyCase) -> int:
        import tensorflow as tf

        # It keeps no resolver; connecting to the cluster made every worker's devices visible.
        names = [tf.DeviceSpec.from_string(device.name) for device in tf.config.list_logical_devices("CPU")]
        return len({name.task for name in names if name.job == "worker"})

    def local_replicas(self, strategy: Any, case: StrategyCase) -> int:
        return len(strategy.experimental_local_results(0))


KIND = _ParameterServer()
