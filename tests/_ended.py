"""Whether processes have ended, wherever the tests run."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import psutil


def has_ended(pid: int) -> bool:
    """Whether it is gone, or a zombie: an orphan stays one in a container whose first process reaps nobody."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def living(processes: Iterable[psutil.Process], seconds: float = 10.0) -> list[psutil.Process]:
    """Which of them have not ended so many seconds later, as soon as none is left."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while (left := [each for each in processes if each.is_running() and not has_ended(each.pid)]) and (
        time.monotonic() < deadline
    ):
        pause.wait(0.01)
    return left
