"""Prepares TensorFlow inside a task, before its first op; never imported by the parent."""

from __future__ import annotations

import os
from typing import Any

from simulator.topology import Devices
from simulator.wire.spec import TaskSpec

SIMULATED = "SIMULATED"
"""How the name of every simulated device begins."""

TF32_VARIABLE = "LOCKSTEP_TF32"


def configure(spec: TaskSpec) -> tuple[str, ...]:
    """Create the task's logical devices and bound its thread pools.

    Of the threads the task's own are for the work inside one op. The pool that runs ops side by side has two more than
    there are devices, because a replica that waits in a collective occupies one.

    Returns:
        What the task computes on, one description for each physical device.

    Raises:
        RuntimeError: TensorFlow sees other GPUs in this process than the parent was told of.
    """
    import tensorflow as tf

    devices = Devices.parse(spec.devices)
    tf.config.threading.set_intra_op_parallelism_threads(spec.threads)
    tf.config.threading.set_inter_op_parallelism_threads(devices.count + 2)
    if devices.on_gpu:
        return _configure_gpus(tf, devices, spec)
    physical_gpus(tf)
    tf.config.set_visible_devices([], "GPU")
    if devices.count > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices.count)
        _let_multi_worker_use_all_cpus(devices.count)
    return (str(devices),)


def _configure_gpus(tf: Any, devices: Devices, spec: TaskSpec) -> tuple[str, ...]:
    there = physical_gpus(tf)
    if not spec.gpus or max(spec.gpus) >= len(there):
        raise RuntimeError(
            f"{devices} was asked for, and {spec.task} was given GPU {', '.join(map(str, spec.gpus)) or 'none'}, but "
            f"TensorFlow sees {len(there) or 'none'} in this process; see `lockstep doctor`"
        )
    chosen = [there[index] for index in spec.gpus]
    # Several simulated ones never stand for real ones, nor the other way round.
    for gpu in chosen:
        name = _name(tf, gpu)
        if name.startswith(SIMULATED) != (devices.kind == "gpu-simulated"):
            raise RuntimeError(f"{devices} was asked for, and TensorFlow's {gpu.name} is {name!r}")
    # Its products of float32 have 10 bits of mantissa, so a training in float32 would be judged by what it is not.
    tensor_float_32 = os.environ.get(TF32_VARIABLE) == "1"
    tf.config.experimental.enable_tensor_float_32_execution(tensor_float_32)
    tf.config.set_visible_devices(chosen, "GPU")
    if spec.gpu_memory_mb:
        limit = tf.config.LogicalDeviceConfiguration(memory_limit=spec.gpu_memory_mb)
        tf.config.set_logical_device_configuration(chosen[0], [limit] * devices.count)
    else:
        for gpu in chosen:
            tf.config.experimental.set_memory_growth(gpu, True)
    split = f", split into {devices.count} of {spec.gpu_memory_mb} MB" if spec.gpu_memory_mb else ""
    rounding = f", TF32 {'on' if tensor_float_32 else 'off'}"
    return tuple(f"GPU {index}: {described(tf, there[index])}{split}{rounding}" for index in spec.gpus)


def physical_gpus(tf: Any) -> Any:
    """The GPUs that TensorFlow sees in this process.

    With a library of pluggable devices TensorFlow looks for them when it is imported: in a task, when its forkserver
    was, under another environment. So it is made to look again.
    """
    if os.environ.get("TF_PLUGGABLE_DEVICE_LIBRARY_PATH"):
        from tensorflow.python.eager import context

        context.context().reinitialize_physical_devices()
    return tf.config.list_physical_devices("GPU")


def described(tf: Any, gpu: Any) -> str:
    """The name of a physical GPU, with its compute capability if it has one."""
    capability = tf.config.experimental.get_device_details(gpu).get("compute_capability")
    return _name(tf, gpu) + (f" (compute capability {'.'.join(map(str, capability))})" if capability else "")


def _name(tf: Any, gpu: Any) -> str:
    return str(tf.config.experimental.get_device_details(gpu).get("device_name") or gpu.name)


def _let_multi_worker_use_all_cpus(count: int) -> None:
    """Make MultiWorkerMirroredStrategy use `count` CPU devices per worker.

    It uses all GPUs of a worker but only ever `CPU:0`: the number is the literal 1 in
    `CollectiveAllReduceExtended._initialize_local_devices`
    (tensorflow/python/distribute/collective_all_reduce_strategy.py). Everything behind that number is the real
    strategy.
    """
    from tensorflow.python.distribute import collective_all_reduce_strategy

    def all_cpus(self: Any, cluster_resolver: Any, worker_device: str) -> tuple[tuple[str, ...], str]:
        return tuple(f"{worker_device}/device:CPU:{index}" for index in range(count)), "CPU"

    collective_all_reduce_strategy.CollectiveAllReduceExtended._initialize_local_devices = all_cpus  # noqa: SLF001


def start_server() -> Any:
    """Start the `tf.distribute.Server` of a ps or worker task, as `TF_CONFIG` describes it, and return it.

    A server that is not given a configuration exposes every GPU of the machine to the cluster, with all its memory:
    what `configure` has set is that of the eager context alone.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    own = context.context().config
    return tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
        config=tf.compat.v1.ConfigProto(device_count=own.device_count, gpu_options=own.gpu_options),
        start=True,
    )
