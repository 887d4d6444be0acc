"""What the commands write to stdout and stderr, which never changes what they mean.

A reader that has gone, as behind `| head -1`, wants no more; a stream that was closed from the start was never wanted.
What cannot be written for another reason, such as a full disk, is said once and is a failure of its own.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from typing import TextIO

# Nobody is there any more: of a pipe or socket the reader, of a terminal its window.
_GONE = (errno.EPIPE, errno.ECONNRESET, errno.EIO)


class Outlet(io.RawIOBase):
    """A file descriptor to which writing always succeeds.

    Attributes:
        lost: why something could not be written although somebody may be there to read it.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._gone = False
        self.lost: OSError | None = None

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: object) -> int:
        """Write all of it, or drop it."""
        view = memoryview(data).cast("B")  # type: ignore[arg-type]  # whatever has bytes
        done = 0
        while done < len(view) and not self._gone:
            try:
                done += os.write(self._descriptor, view[done:])
            except BlockingIOError:  # a pipe whose other end has made it so
                select.select([], [self._descriptor], [])
            except OSError as error:
                self._gone = True
                self.lost = None if error.errno in _GONE else error
        return len(view)


@contextlib.contextmanager
def lasting_output() -> Iterator[list[Outlet]]:
    """Write to stdout and stderr through an `Outlet` each, which are yielded, as far as they are the process's own."""
    _open_standard_descriptors()
    before = sys.stdout, sys.stderr
    outlets = [Outlet(1), Outlet(2)]
    if sys.stdout is sys.__stdout__:
        sys.stdout = _stream(outlets[0], sys.stdout, line_buffering=False)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _stream(outlets[1], sys.stderr, line_buffering=True)
    try:
        yield outlets
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def _stream(outlet: Outlet, like: TextIO | None, *, line_buffering: bool) -> TextIO:
    if like is not None:
        like.flush()
    encoding = "utf-8" if like is None else like.encoding
    # A terminal or a setting that knows fewer letters than a verdict has is no reason to say nothing.
    return io.TextIOWrapper(
        io.BufferedWriter(outlet), encoding=encoding, errors="backslashreplace", line_buffering=line_buffering
    )


def _open_standard_descriptors() -> None:
    """Open those that whoever started this process has closed: the next file to be opened would take their place."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest number that is free is taken, which is this one. What tasks are made from has it, too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
