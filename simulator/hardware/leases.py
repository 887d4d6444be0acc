"""GPUs are lent to one run at a time, among all processes of this user, by locks on files that say which they are."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from simulator.errors import DeadlineExceeded
from simulator.hardware.cache import cache_folder
from simulator.hardware.detecting import Gpu, gpus, task_variables
from simulator.hardware.sharing import GpuShare, gpu_shares, gpus_wanted
from simulator.topology import Topology

SHARE_VARIABLE = "LOCKSTEP_SHARE_GPUS"
"""With `1` runs do not wait for each other, and may meet on one GPU."""
_LOOK_SECONDS = 0.25
"""How long one GPU is waited for before all are looked at again."""


@contextlib.contextmanager
def gpu_lease(
    count: int, there: Sequence[Gpu], seconds: float, folder: Path | None = None
) -> Iterator[tuple[Gpu, ...]]:
    """GPUs that no other run has, for the duration of the context; those that are free, or a wait until enough are.

    Nobody waits while it holds some: what it cannot have at once, it gives back first. Locks end with their process.

    Args:
        count: how many are wanted; all, where there are fewer.
        there: the GPUs.
        seconds: how long to wait for them at most.
        folder: of the locks, by default one of this user.

    Raises:
        DeadlineExceeded: others have had them for so long.
    """
    if os.environ.get(SHARE_VARIABLE) == "1":
        yield tuple(there)
        return
    needed, deadline = min(count, len(there)), time.monotonic() + seconds
    place = folder or cache_folder() / "leases"
    place.mkdir(parents=True, exist_ok=True)
    while True:
        with contextlib.ExitStack() as held:
            taken, busy = _free(there, needed, place, held)
            if len(taken) == needed:
                with held.pop_all():
                    yield taken
                return
        _wait_for(busy, place, deadline, seconds)


def _free(
    there: Sequence[Gpu], needed: int, place: Path, held: contextlib.ExitStack
) -> tuple[tuple[Gpu, ...], Gpu | None]:
    """As many as are free, of those that are needed, and the first that is not."""
    taken: list[Gpu] = []
    busy: Gpu | None = None
    for gpu in there:
        if len(taken) == needed:
            break
        try:
            held.enter_context(_lock(gpu, place).acquire(blocking=False))
            taken.append(gpu)
        except Timeout:
            busy = busy or gpu
    return tuple(taken), busy


def _wait_for(gpu: Gpu | None, place: Path, deadline: float, seconds: float) -> None:
    """Until somebody else has given it back, or for so long that another one may have been given back meanwhile."""
    assert gpu is not None
    left = max(0.0, deadline - time.monotonic())
    try:
        with _lock(gpu, place).acquire(timeout=min(left, _LOOK_SECONDS)):
            pass
    except Timeout:
        if left > _LOOK_SECONDS:
            return
        what = f"GPU {gpu.index} ({gpu.name}), which another run of Lockstep has"
        raise DeadlineExceeded(what, seconds, f"{SHARE_VARIABLE}=1 lets runs share GPUs") from None


def _lock(gpu: Gpu, place: Path) -> FileLock:
    """The lock of a physical GPU, whatever number it has among those that this process is shown."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    name = shown[gpu.index].strip() if gpu.index < len(shown) and shown[gpu.index].strip() else str(gpu.index)
    return FileLock(place / f"{name.replace(os.sep, '_')}.lock", thread_local=False)


def lent_gpus(
    topology: Topology, stack: contextlib.ExitStack, timeout: float
) -> tuple[dict[str, GpuShare], dict[str, str]]:
    """The GPUs of each task, lent to this run alone, and what lets the tasks see them.

    Args:
        topology: the tasks.
        stack: gives them back.
        timeout: seconds to wait for those that others have.

    Raises:
        HardwareMissing: there are none, or too small ones.
    """
    if (kind := topology.gpu_kind) is None:
        return {}, {}
    there = gpus(kind)
    if kind == "gpu":  # each process has simulated ones of its own
        there = stack.enter_context(gpu_lease(gpus_wanted(topology), there, timeout))
    return gpu_shares(topology, there), task_variables(kind)
