"""Whether a disk has room for what is about to be recorded, which is known once the reference has been."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import NoRoom
from harness.evidence.arrays import arrays_in
from harness.evidence.trace import RunTrace

__all__ = ["RERUNS", "check_room", "check_run_fits", "files_beside", "fitting"]

RERUNS = 2
"""Traces of reruns with noise that a reference comes to have, see `harness.evidence.furthest`: of the first look, and
of what is asked for before anything is accused.
"""


def check_room(directory: Path, size: int, what: str) -> None:
    """Fail before a disk is full.

    Args:
        directory: on the disk.
        size: bytes that are about to be written there.
        what: they are, for a sentence.

    Raises:
        NoRoom: there are not as many.
    """
    if (free := _free(directory)) < size:
        raise NoRoom.of(str(directory), size, free, what)


def check_run_fits(directory: Path, clients: int, reference: RunTrace) -> None:
    """Fail before a run whose clients record as much as the reference, if its disk has no room for that.

    Raises:
        NoRoom: it has none.
    """
    size = sum(array.data.nbytes for array in arrays_in(reference))
    check_room(directory, clients * size, "each client of the run is to record as much as its reference")


def fitting(directory: Path, size: int, most: int) -> int:
    """How many files of a size fit, at least 1 and at most so many: whether even that one does is another question."""
    return max(1, min(most, _free(directory) // max(1, size)))


def files_beside(cache: Path, directory: Path, clients: int, *, keep: bool) -> int:
    """How many files as large as a reference's trace its disk is to have room for, besides the reference's own.

    Args:
        cache: where references are kept.
        directory: where the run that is to be judged leaves what its clients record.
        clients: of that run.
        keep: whether the reference is copied there in the end.
    """
    there = next(path for path in (cache, *cache.absolute().parents) if path.exists())
    if there.stat().st_dev != directory.stat().st_dev:
        return 0
    return clients + (1 + RERUNS if keep else 0)


def _free(directory: Path) -> int:
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize
