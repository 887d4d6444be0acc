"""A bound on the address space."""

from __future__ import annotations

import errno
import mmap
import resource

from simulator.agent.faults.actions import ActionReport

# What the task says when it ends for want of memory.
OUT_OF_MEMORY = "asked for by the fault plan: the task's address space is bounded"
# How often the bound is set until it refuses something.
_BOUNDS_MAX = 1000


def act(report: ActionReport, headroom: int, *, fatal: bool) -> None:
    """Bound the address space to what is used now and `headroom` bytes, and prove it by an allocation."""
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    refused, bound = False, 0
    for _ in range(_BOUNDS_MAX):
        pages = int(open("/proc/self/statm").read().split()[0])  # noqa: SIM115, PTH123 - memory is about to be short
        bound = pages * resource.getpagesize() + headroom
        resource.setrlimit(
            resource.RLIMIT_AS, (bound if before == resource.RLIM_INFINITY else min(bound, before), hard)
        )
        # If it is granted, a thread has given memory back since it was counted, and the bound is too high.
        if refused := _is_refused(2 * headroom):
            break
    report(refused="MemoryError" if refused else "", before=before, bound=bound)
    if fatal and refused:
        # From here on memory is there again: which thread asks next must not decide how the task ends.
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
        raise MemoryError(OUT_OF_MEMORY)


def _is_refused(size: int) -> bool:
    try:
        # Not from the heap, which may have as much to spare.
        mmap.mmap(-1, size).close()
    except OSError as error:
        return error.errno == errno.ENOMEM
    return False
