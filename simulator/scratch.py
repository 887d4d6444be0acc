"""Temporary directories that are gone afterwards, also when this process is killed."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from simulator._warden import warden

__all__ = ["make_scratch", "remove_scratch", "scratch"]


def make_scratch(purpose: str) -> Path:
    """A new directory, `lockstep-PURPOSE-...`; it is removed by `remove_scratch`, or when this process ends in whatever way."""
    directory = Path(tempfile.mkdtemp(prefix=f"lockstep-{purpose}-"))
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
