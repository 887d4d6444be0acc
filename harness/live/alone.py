"""One judge at a time is at work in a deposit: two would judge each step twice, and write into one file."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from simulator import UsageError

_LOCK = "judge.lock"


@contextlib.contextmanager
def judging_alone(deposit: Path) -> Iterator[None]:
    """Within this context no other judge begins there; the system ends the lock of a process that it ends.

    Raises:
        UsageError: another one is at work there.
    """
    lock = FileLock(deposit / _LOCK)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the file itself is the lock where the file system has no others
            lock.acquire(blocking=False)
    except Timeout as held:
        if not isinstance(lock, SoftFileLock):
            raise UsageError(f"another `lockstep judge` is at work in {deposit}; wait for its end, or end it") from held
    except (OSError, NotImplementedError):  # there are none at all
        pass
    if isinstance(lock, SoftFileLock):  # the file would stay if this process were killed
        lock.release()
    try:
        yield
    finally:
        lock.release()
