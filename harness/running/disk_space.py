"""Whether a disk has room for what is about to be recorded, which is known once a plain run has been."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import NoRoom

__all__ = ["RERUNS", "check_room", "fitting"]

RERUNS = 2
"""Traces of reruns with noise that a reference has after a first look."""


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


def fitting(directory: Path, size: int, most: int) -> int:
    """How many files of a size fit, at least 1 and at most so many: whether even that one does is another question."""
    return max(1, min(most, _free(directory) // max(1, size)))


def _free(directory: Path) -> int:
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize
