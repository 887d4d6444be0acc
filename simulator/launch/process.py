"""What a fresh process of a task does first: a group of its own, death with its parent, output into its log."""

from __future__ import annotations

import contextlib
import os
import sys

from simulator import _kernel

__all__ = ["join_no_one", "redirect_output"]


def join_no_one() -> None:
    """Own session and process group, and death with the forkserver (which dies with the parent)."""
    os.setsid()
    parent = os.getppid()
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # `lockstep doctor` says what its absence costs
            _kernel.die_with_parent()
        if os.getppid() != parent:  # it died before the request took hold
            os._exit(1)


def redirect_output(log: str) -> None:
    """Append stdout and stderr, together, to this file."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
