"""What the kernel says of the processes of this machine: members of a group, and what one does of a signal."""

from __future__ import annotations

from pathlib import Path

__all__ = ["catches", "group_members"]


def group_members(group: int) -> list[int]:
    """Process ids of the living members of a process group; one that has ended and was not waited for is not alive."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # it has just ended
                continue
            # PID (NAME) STATE PARENT GROUP ...; the name may hold blanks and parentheses.
            state, _, member_of = stat.rpartition(")")[2].split()[:3]
            if int(member_of) == group and state not in "ZX":
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
