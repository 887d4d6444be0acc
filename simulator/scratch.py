"""Temporary directories that are gone afterwards, also when this process is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from simulator._warden import warden

__all__ = ["make_scratch", "remove_scratch", "scratch"]


# The name of a Unix socket has at most 107 bytes, of which a scratch directory and the socket in it take up to 50.
_PARENT_LENGTH_MAX = 55


def make_scratch(purpose: str) -> Path:
    """A new directory, `lockstep-PURPOSE-...`, removed by `remove_scratch`, or when this process ends in whatever way.

    It lies where `tempfile` would put it, unless that path is too long for the Unix sockets within.
    """
    parent = tempfile.gettempdir()
    if len(os.fsencode(parent)) > _PARENT_LENGTH_MAX:
        parent = "/tmp"  # noqa: S108 - mkdtemp creates a directory of our own there
    directory = Path(tempfile.mkdtemp(prefix=f"lockstep-{purpose}-", dir=parent))
    warden.watch_directory(directory)
    return directory


def remove_scratch(directory: Path) -> None:
    """Remove a directory made by `make_scratch`."""
    shutil.rmtree(directory, ignore_errors=True)
    warden.forget_directory(directory)


@contextlib.contextmanager
def scratch(purpose: str) -> Iterator[Path]:
    """A temporary directory for the duration of the context."""
    directory = make_scratch(purpose)
    try:
        yield directory
    finally:
        remove_scratch(directory)
