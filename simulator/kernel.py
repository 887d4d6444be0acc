"""Calls of the Linux kernel that Python lacks, or has from 3.12 on only, and what it says of processes."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import time
from functools import cache
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
# Of what follows the name in `/proc/PID/stat`.
_STARTED_AT = 19
# linux/sched.h
NEW_MOUNTS = 0x00020000
NEW_UTS = 0x04000000
NEW_USER = 0x10000000
NEW_PROCESSES = 0x20000000
NEW_NETWORK = 0x40000000
# linux/prctl.h, linux/mount.h
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_BIND = 4096
_RECURSIVE = 16384
_RECURSIVE_PRIVATE = _RECURSIVE | 1 << 18


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(status: int, what: str) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave these namespaces of the process for new ones; new processes: its next children, not itself."""
    _check(_libc().unshare(flags), "unshare")


def set_namespace(descriptor: int, kind: int) -> None:
    """Enter the namespace that this descriptor stands for; a network namespace for the calling thread alone."""
    _check(_libc().setns(descriptor, kind), "setns")


def map_user(inside: int, outside: int, group_inside: int, group_outside: int) -> None:
    """Be this user and group in the user namespace that the process has just made."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{inside} {outside} 1")
    Path("/proc/self/gid_map").write_text(f"{group_inside} {group_outside} 1")


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Get this signal when the thread that forked this process ends."""
    _check(_libc().prctl(_PR_SET_PDEATHSIG, number), "prctl")


def adopt_orphans() -> None:
    """Be the parent of every descendant whose parent ends, until this process ends."""
    _check(_libc().prctl(_PR_SET_CHILD_SUBREAPER, 1), "prctl")


def keep_mounts_private() -> None:
    """Later mounts of this process's mount namespace are seen in it alone."""
    _mount("none", "/", None, _RECURSIVE_PRIVATE)


def bind_file(source: str, target: str) -> None:
    """Show the file `source` where the file `target` is."""
    _mount(source, target, None, _BIND)


def bind_tree(source: str, target: str) -> None:
    """Show the directory or file `source`, with what is mounted within, where `target` is."""
    _mount(source, target, None, _BIND | _RECURSIVE)


def mount_overlay(target: str, lower: str, upper: str, work: str, *, in_own: bool) -> None:
    """Show the directory `lower` where `target` is, and have `upper` take what is written there.

    Args:
        target: a directory.
        lower: a directory; neither its path nor the others may have a comma or a colon in it.
        upper: an empty directory, in the same file system as the next one.
        work: an empty directory for the kernel.
        in_own: whether this is a user namespace that is not the machine's.
    """
    user = ",userxattr" if in_own else ""
    _mount("overlay", target, "overlay", 0, f"lowerdir={lower},upperdir={upper},workdir={work}{user}")


def mount_proc() -> None:
    """Show the processes of the own process namespace under `/proc`."""
    _mount("proc", "/proc", "proc", _NOSUID_NODEV_NOEXEC)


def mount_memory(target: str, size: int) -> None:
    """Show an empty file system of so many bytes, in memory, where the directory `target` is."""
    _mount("tmpfs", target, "tmpfs", 0, f"size={size}")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, data)]
    _check(_libc().mount(*words[:3], ctypes.c_ulong(flags), words[3]), f"mount {target}")


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
