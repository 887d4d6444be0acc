"""The append-only record of a run: JSON Lines, stamped with the monotonic clock."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

_EVENTS = msgspec.json.Decoder(dict[str, Any])


class Journal:
    """Writes one JSON object a line: `t` (seconds, CLOCK_MONOTONIC), `event`, and what the event carries.

    Args:
        path: the file, to which it appends.
        failed: called with the error when an event could not be written, for want of room for example. Nothing is
            written from then on.
    """

    def __init__(self, path: Path, failed: Callable[[OSError], None] = lambda error: None) -> None:
        self.path = path
        self._file = path.open("ab", buffering=0)
        self._failed = failed
        self._lock = threading.Lock()
        self._encoder = msgspec.json.Encoder()
        # The wall clock stands once, so that a reader can place the run in time.
        self.write("journal", wall=time.time())

    def write(self, event: str, **fields: Any) -> None:
        """Append one event; safe from any thread, ignored after `close`. An error of the disk is told to `failed`."""
        line = self._encoder.encode({"t": time.monotonic(), "event": event, **fields}) + b"\n"
        try:
            with self._lock:
                if not self._file.closed:
                    self._append(line)
        except OSError as error:
            error.filename = str(self.path)
            self._failed(error)  # not while holding the lock: it may need others

    def _append(self, line: bytes) -> None:
        began = os.fstat(self._file.fileno()).st_size
        rest = memoryview(line)
        try:
            while rest:  # the last room of a disk may take a part
                rest = rest[self._file.write(rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), began)
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()


def is_cut_off(path: Path) -> bool:
    """Whether a saved journal ends within a line, as on a full disk; each is written at once, so no kill does it."""
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 1))
        return file.read() != b"\n"


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a saved journal; a last line that was cut off is left out.

    Raises:
        ValueError: another line is no event.
        OSError: it cannot be read.
    """
    *lines, _ = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            yield _EVENTS.decode(line)
        except msgspec.DecodeError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
        except RecursionError as error:
            raise ValueError(f"{path}, line {number} is nested too deeply") from error
