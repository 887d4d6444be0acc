"""Prepares TensorFlow inside a task, before its first op; never imported by the parent."""

from __future__ import annotations

import os
from typing import Any

from simulator.topology import Devices

__all__ = ["configure", "start_server"]

# Memory of one logical GPU when a physical one is split; overridden with LOCKSTEP_GPU_MEMORY_MB.
_GPU_MEMORY_MB = 2048


def configure(devices: Devices, rank: int, threads: int) -> None:
    """Create the task's logical devices and bound its thread pools.

    Args:
        devices: what this task computes on.
        rank: position of the task among all tasks; spreads tasks over physical GPUs.
        threads: threads for the work inside one op. The pool that runs ops side by side has two more than there are
            devices, because a replica that waits in a collective occupies one.
    """
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(devices.count + 2)
    if devices.kind == "gpu":
        _configure_gpus(tf, devices.count, rank)
        return
    tf.config.set_visible_devices([], "GPU")
    if devices.count > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices.count)
        _let_multi_worker_use_all_cpus(devices.count)


def _configure_gpus(tf: Any, count: int, rank: int) -> None:
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise RuntimeError(f"gpu:{count} was asked for, but TensorFlow sees no GPU; see `lockstep doctor`")
    if len(gpus) >= count:
        first = (rank * count) % len(gpus)
        chosen = [gpus[(first + offset) % len(gpus)] for offset in range(count)]
        tf.config.set_visible_devices(chosen, "GPU")
        for gpu in chosen:
            tf.config.experimental.set_memory_growth(gpu, True)
        return
    gpu = gpus[rank % len(gpus)]
    tf.config.set_visible_devices([gpu], "GPU")
    limit = int(os.environ.get("LOCKSTEP_GPU_MEMORY_MB", _GPU_MEMORY_MB))
    tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=limit)] * count)


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
    """Start the `tf.distribute.Server` of a ps or worker task, as `TF_CONFIG` describes it, and return it."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    return tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
        start=True,
    )
