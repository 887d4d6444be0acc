"""Files that are read as far as somebody looks at them, and of which nothing needs to stay in memory."""

from __future__ import annotations

import contextlib
import mmap
import weakref
from pathlib import Path

__all__ = ["give_back", "mapped"]

_open: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


def mapped(path: Path) -> memoryview:
    """The bytes of a file as it is now; they are read when they are looked at, also after the file was removed.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        try:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file
            return memoryview(b"")
    _open.add(view)
    return memoryview(view)


def give_back() -> None:
    """Let the system have the memory of all that was looked at; who looks again reads it from the file again."""
    for view in list(_open):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # advice is not to be had everywhere
            view.madvise(mmap.MADV_DONTNEED)
