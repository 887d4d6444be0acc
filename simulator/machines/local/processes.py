"""What the kernel says of the processes of this machine: members of a group, and what one does of a signal."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

__all__ = ["catches", "group_members", "now_ticks"]

_TICKS = os.sysconf("SC_CLK_TCK")
# Of what follows the name in `/proc/PID/stat`.
_STARTED_AT = 19


def now_ticks() -> int:
    """The time as the kernel has it for the start of a process."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS)


def group_members(group: int, until: float = math.inf) -> list[int]:
    """Process ids of the living members of a process group; one that has ended and was not waited for is not alive.

    Args:
        group: its number, which nobody else gets as long as somebody is in it.
        until: only those that had been started by then, as of `now_ticks`.
    """
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # it has just ended
                continue
            # PID (NAME) STATE PARENT GROUP ...; the name may hold blanks and parentheses.
            words = stat.rpartition(")")[2].split()
            state, _, member_of = words[:3]
            if int(member_of) == group and state not in "ZX" and int(words[_STARTED_AT]) <= until:
                found.append(int(entry.name))
    return found


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for this signal."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (number - 1) & 1)
