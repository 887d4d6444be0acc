"""Cores and memory a process here may use, by affinity, by control group (version 1 and 2), and by installation."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
_WAITED = re.compile(r"^some avg10=([0-9.]+)", re.MULTILINE)
_WAITED_PERCENT_MAX = 25.0
"""Of the last ten seconds in which some process waited: a suite of tests on all cores comes to 50."""


def cores() -> int:
    """How many threads of this process can run at once: whole CPUs, by affinity and by control groups, at least 1."""
    quota = cores_quota()
    return max(1, cores_affinity() if quota is None else min(cores_affinity(), math.floor(quota)))


def is_busy(root: Path = _ROOT) -> bool:
    """Whether processes have had to wait for a core much of the last ten seconds.

    Where the kernel does not account for waiting (`/proc/pressure`), the load of the last minute says so.
    """
    if waited := _WAITED.search(_read(root / "proc/pressure/cpu")):
        return float(waited[1]) > _WAITED_PERCENT_MAX
    words = _read(root / "proc/loadavg").split()
    return bool(words) and float(words[0]) > cores()


def cores_affinity() -> int:
    """Return how many CPUs this process may be scheduled on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cores_quota(root: Path = _ROOT) -> float | None:
    """Return the CPU time per second that the control groups of this process allow, or None without a limit.

    The tightest limit from the process's own group up to the root counts: `cpu.max` in version 2, `cpu.cfs_quota_us`
    over `cpu.cfs_period_us` in version 1. `root` is where `proc` and `sys` are found.
    """
    limits: list[float] = []
    for group in _groups(root, "cpu"):
        words = _read(group / "cpu.max").split()
        if len(words) == 2:
            quota, period = words
        else:
            quota, period = _read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def memory_bytes(root: Path = _ROOT) -> int:
    """Return installed memory, or the tightest control group limit if that is lower; 0 where neither can be read."""
    limits = [math.inf]
    lines = _read(root / "proc/meminfo").splitlines()
    limits += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:")]
    for group in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            value = _read(group / name)
            if value.isdigit():
                limits.append(int(value))
    least = min(limits)
    return 0 if math.isinf(least) else int(least)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the control groups of this process that hold `controller`, innermost first, for both versions."""
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base = mount
        elif controller in controllers.split(","):
            base = mount / controller
        else:
            continue
        group = base / path.lstrip("/")
        while True:
            yield group
            if group == base:
                break
            group = group.parent


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
