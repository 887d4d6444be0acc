"""What the agent does in its task for a fault, at a gate."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from simulator.wire import control

if TYPE_CHECKING:
    from simulator.agent.agent import Agent

__all__ = ["OUT_OF_MEMORY", "InjectedCrash", "perform"]


# What the task says when it ends for want of memory.
OUT_OF_MEMORY = "asked for by the fault plan: the task's address space is bounded"
# How often the bound is set until it refuses something.
_BOUNDS_MAX = 1000


class InjectedCrash(RuntimeError):
    """Raised in a task by a fault of kind `crash`."""


def perform(agent: Agent, actions: Iterable[control.Action]) -> None:
    """Do what the parent asks, in order, and report what came of it; an action may end the process."""
    for action in actions:
        _ACTIONS[action.kind](_Report(agent, action.fault), **action.arguments)


class _Report:
    """Tells the parent what came of an action."""

    def __init__(self, agent: Agent, fault: str) -> None:
        self._agent = agent
        self._fault = fault

    def __call__(self, **effect: Any) -> None:
        self._agent.send(control.Acted(fault=self._fault, effect=effect, at=time.monotonic()))


def _crash(report: _Report, how: str, code: int) -> None:
    report(how=how)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "exit":
        os._exit(code)
    raise InjectedCrash("asked for by the fault plan")


def _disk_full(report: _Report, size: int) -> None:
    """Let no file grow beyond `size` bytes, as on a full disk, and prove it with a file that tries."""
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    refused = ""
    with tempfile.TemporaryFile(buffering=0) as file:
        file.truncate(size)
        file.seek(size)
        try:
            file.write(b"x")
        except OSError as error:
            refused = errno.errorcode[error.errno or 0]
    report(refused=refused, before=before)


def _oom(report: _Report, headroom: int, *, fatal: bool) -> None:
    """Bound the address space to what is used now and `headroom` bytes, and prove it by an allocation."""
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    refused = False
    for _ in range(_BOUNDS_MAX):
        pages = int(open("/proc/self/statm").read().split()[0])  # noqa: SIM115, PTH123 - memory is about to be short
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + headroom, hard))
        # If it is granted, a thread has given memory back since it was counted, and the bound is too high.
        if refused := _is_refused(2 * headroom):
            break
    report(refused="MemoryError" if refused else "", before=before)
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


def _numbers_action(name: str) -> Callable[..., None]:
    def act(report: _Report, **arguments: Any) -> None:
        from simulator.agent.faults import numbers

        getattr(numbers, name)(report, **arguments)

    return act


_ACTIONS: dict[str, Callable[..., None]] = {
    "crash": _crash,
    "disk_full": _disk_full,
    "oom": _oom,
    "corrupt_variable": _numbers_action("corrupt_variable"),
    "corrupt_gradient": _numbers_action("corrupt_gradient"),
}
