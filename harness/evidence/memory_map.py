"""Files that are read as far as somebody looks at them, and of which nothing needs to stay in memory."""

from __future__ import annotations

import contextlib
import mmap
import weakref
from pathlib import Path

_KEPT_BYTES = 1 << 27

_since = 0
_open: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


def map_file(path: Path, *, changed: bool = False) -> memoryview:
    """The bytes of a file as it is now; they are read when they are looked at, also after the file was removed.

    Args:
        path: of the file.
        changed: whether what is written into them is to be written into the file.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("r+b" if changed else "rb") as file:
        try:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if changed else mmap.ACCESS_READ)
        except ValueError:  # an empty file
            return memoryview(b"")
    _open.add(view)
    return memoryview(view)


def note_access(size: int) -> None:
    """Some bytes have been read; now and then the system gets the memory of all that was, to be read again if need be.

    Without that a long training would sooner or later be in memory as a whole.
    """
    global _since  # noqa: PLW0603 - the memory of a process is one
    _since += size
    if _since > _KEPT_BYTES:
        release_pages()


def release_pages() -> None:
    """Let the system have the memory of what was read."""
    global _since  # noqa: PLW0603 - as above
    _since = 0
    for view in list(_open):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # advice is not to be had everywhere
            view.madvise(mmap.MADV_DONTNEED)
