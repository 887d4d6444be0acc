"""A crash from within: an exception, a segmentation fault, or an exit."""

from __future__ import annotations

import ctypes
import os

from simulator.agent.faults.actions import ActionReport


class InjectedCrash(RuntimeError):
    """Raised in a task by a fault of kind `crash`."""


def act(report: ActionReport, how: str, code: int) -> None:
    """End the process in this way; `code` is that of an exit."""
    report(how=how)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "exit":
        os._exit(code)
    raise InjectedCrash("asked for by the fault plan")
