"""Where the replicas and variables of a client really stood, asked of TensorFlow when the program has ended."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from harness.evidence.counters import DevicePlacement
from harness.recording.tensors import tensor_of


def placement_of(strategy: Any, recorded: Sequence[tuple[str, Sequence[Any]]], task: str) -> DevicePlacement:
    """What a trace keeps of it; changes nothing.

    Args:
        strategy: of the run.
        recorded: the variables that the program has recorded, each with its name, as one object or as its shards.
        task: of this process.
    """
    import tensorflow as tf

    there = [_short(device.name, task) for device in tf.config.list_logical_devices()]
    local = [name for name in there if name.startswith("GPU:")]
    return DevicePlacement(
        replicas=tuple(_short(name, task) for name in _worker_devices(strategy)),
        there=tuple(there),
        variables={
            name: found
            for name, shards in recorded
            if (found := tuple(place for shard in shards for place in _places(strategy, shard, task)))
        },
        peak_bytes={name: int(tf.config.experimental.get_memory_info(name)["peak"]) for name in local},
    )


def _worker_devices(strategy: Any) -> Sequence[str]:
    """The devices of the local replicas; none for the default strategy, which leaves that to TensorFlow."""
    with contextlib.suppress(RuntimeError):
        found: Sequence[str] = strategy.extended.worker_devices
        return found
    return ()


def _places(strategy: Any, variable: Any, task: str) -> list[str]:
    """The device of each copy of a floating variable: small integers stand in host memory by TensorFlow's own rules."""
    import tensorflow as tf

    inner = tensor_of(variable)
    copies = [inner]
    if isinstance(inner, tf.distribute.DistributedValues):
        copies = list(strategy.experimental_local_results(inner))
    return [_short(_device_of(copy), task) for copy in copies if copy.dtype.is_floating]


def _device_of(copy: Any) -> str:
    """Where the value is, if that is in this process; else where its variable was made."""
    import tensorflow as tf

    made = str(copy.device)
    if "/job:ps" in made or not hasattr(copy, "handle"):
        return made
    # The variable's own `read_value` hands out a copy on the device of whoever reads.
    return str(tf.raw_ops.ReadVariableOp(resource=copy.handle, dtype=copy.dtype).backing_device)


def _short(name: str, task: str) -> str:
    """`GPU:0`, and `ps:1 CPU:0` for a device of another task."""
    import tensorflow as tf

    spec = tf.DeviceSpec.from_string(name)
    device = f"{spec.device_type or 'CPU'}:{spec.device_index or 0}"
    owner = f"{spec.job}:{spec.task or 0}"
    return device if spec.job in (None, "localhost") or owner == task else f"{owner} {device}"
