"""Which task of a cluster computes on which GPUs, and with how much of their memory."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulator.errors import HardwareMissing, UsageError
from simulator.hardware.detecting import Gpu
from simulator.topology import Topology

LIMIT_VARIABLE = "LOCKSTEP_GPU_MEMORY_MB"
_LIMIT_MB = 2048
_MB = 2**20
# Below this not even the smallest training has room for its workspaces.
_LEAST_MB = 64


@dataclass(frozen=True)
class GpuShare:
    """What of the GPUs is a task's.

    Attributes:
        gpus: their numbers, as TensorFlow counts them; none for a task on the CPU.
        memory_mb: of each logical device, where one GPU is split into several; 0 for as much as it needs of whole ones.
    """

    gpus: tuple[int, ...] = ()
    memory_mb: int = 0


def gpu_shares(
    topology: Topology, there: Sequence[Gpu], environ: Mapping[str, str] | None = None
) -> dict[str, GpuShare]:
    """The share of each task.

    Tasks take as many GPUs as they have replicas, one task after the other, and begin again at the first when all are
    taken. Where there are fewer GPUs than one task has replicas, each task splits one. Logical devices of 2048 MB each,
    or as much as `LOCKSTEP_GPU_MEMORY_MB` says, or as much as there is where that is less.

    Args:
        topology: the tasks and their devices.
        there: the GPUs.
        environ: where the variable is looked up, by default this process's environment.

    Raises:
        HardwareMissing: there is no GPU, or what is to be split has not the memory for it.
        UsageError: the variable is no amount of memory.
    """
    asked = _limit(os.environ if environ is None else environ)
    counts = {task: topology.devices_of(task.partition(":")[0]) for task in topology.tasks}
    counts = {task: devices for task, devices in counts.items() if devices.on_gpu}
    if counts and not there:
        kind = next(iter(counts.values())).kind
        raise HardwareMissing(f"{kind} devices were asked for, and TensorFlow sees none here; see `lockstep doctor`")
    shares = {task: GpuShare() for task in topology.tasks}
    taken = 0
    splits: Counter[Gpu] = Counter()
    for task, devices in counts.items():
        if devices.count <= len(there):
            chosen = tuple(there[(taken + offset) % len(there)].index for offset in range(devices.count))
            shares[task], taken = GpuShare(chosen), taken + devices.count
        else:
            gpu, taken = there[taken % len(there)], taken + 1
            shares[task] = GpuShare((gpu.index,), _LIMIT_MB)
            splits[gpu] += devices.count
    for gpu, parts in splits.items():
        for task in [task for task, share in shares.items() if share.memory_mb and share.gpus == (gpu.index,)]:
            why = f"{task} splits it into {counts[task].count}"
            shares[task] = GpuShare((gpu.index,), _each(gpu, parts, asked, why))
    return shares


def gpus_wanted(topology: Topology) -> int:
    """How many GPUs the tasks of a cluster would take if there were as many."""
    counts = (topology.devices_of(task.partition(":")[0]) for task in topology.tasks)
    return sum(devices.count for devices in counts if devices.on_gpu)


def _limit(environ: Mapping[str, str]) -> int | None:
    text = environ.get(LIMIT_VARIABLE)
    if not text:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= _MB:
        raise UsageError(f"{LIMIT_VARIABLE}={text!r} is not a whole number of megabytes from 1 to {_MB}")
    return int(text)


def _each(gpu: Gpu, parts: int, asked: int | None, why: str) -> int:
    """Megabytes for each of so many logical devices on a GPU.

    TensorFlow itself does not look: it makes devices that together have more than there is, and waits for memory that
    never becomes free.
    """
    room = gpu.memory_bytes // _MB // parts
    if asked is None:
        if room < _LEAST_MB:
            raise HardwareMissing(
                f"GPU {gpu.index} ({gpu.name}) has {gpu.memory_bytes // _MB} MB left, too little for {parts} logical "
                f"devices ({why}); use fewer replicas, or end what else computes there"
            )
        return min(_LIMIT_MB, room)
    if asked > room:
        raise HardwareMissing(
            f"GPU {gpu.index} ({gpu.name}) has {gpu.memory_bytes // _MB} MB, and {parts} logical devices of {asked} MB "
            f"({why}) do not fit; set {LIMIT_VARIABLE} to {room} or less, or use fewer replicas"
        )
    return asked
