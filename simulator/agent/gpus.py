"""What TensorFlow sees of the GPUs, asked in a process that does nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from simulator.agent.devices import described, physical_gpus
from simulator.agent.process import fresh_signals, join_no_one


class SeenGpu(msgspec.Struct, frozen=True):
    """A GPU: its number among those that TensorFlow sees, its name, and the bytes that a process can have of it."""

    index: int
    name: str
    memory_bytes: int


def look(environ: Mapping[str, str], answer: Path) -> None:
    """The body of the process: writes the GPUs into the file `answer`, or why they cannot be told."""
    join_no_one()
    fresh_signals(python=True)
    os.environ.clear()
    os.environ.update(environ)
    told: list[SeenGpu] | str
    try:
        told = _seen()
    except Exception as error:  # noqa: BLE001 - the parent shows it, whatever TensorFlow or a driver says
        told = f"{type(error).__name__}: {error}"
    partial = answer.with_suffix(".partial")
    partial.write_bytes(msgspec.json.encode(told))
    partial.replace(answer)


def _seen() -> list[SeenGpu]:
    import tensorflow as tf
    from tensorflow.python.client import device_lib

    there = physical_gpus(tf)
    memory: dict[str, int] = {}
    if there:
        # With growth nothing is taken by looking, and the limit is what could be.
        options = tf.compat.v1.GPUOptions(allow_growth=True)
        devices = device_lib.list_local_devices(tf.compat.v1.ConfigProto(gpu_options=options))
        memory = {device.name.rpartition(":")[2]: device.memory_limit for device in devices if "GPU" in device.name}
    return [SeenGpu(index, described(tf, gpu), int(memory.get(str(index), 0))) for index, gpu in enumerate(there)]
