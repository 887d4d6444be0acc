"""Streams to sites: of a command that leads to another machine, or of whoever carries what is said."""

from __future__ import annotations

import abc
import contextlib
import os
import queue
import socket
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from simulator.errors import LockstepError
from simulator.threads import Worker

_READ_BYTES_MAX = 1 << 20
_SAID_CHARACTERS_MAX = 600


class SiteStream(Protocol):
    """A stream of bytes to a site, and back."""

    def listen(self, hear: Callable[[bytes], None], ended: Callable[[str], None]) -> None:
        """Have what comes heard, and, once, why nothing comes any more; in a thread of the wire's."""

    def send(self, data: bytes) -> None:
        """Send this, in order; does not block, and does nothing when the other end has gone."""

    def close(self, seconds: float) -> None:
        """End it: the site sees that and leaves, for which it has so many seconds."""


class Stream(abc.ABC):
    """A wire over two file descriptors, with a thread for each.

    Args:
        reads: where what the site says comes from.
        writes: where it is told something.
    """

    def __init__(self, reads: int, writes: int) -> None:
        self._reads = reads
        self._writes = writes
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer = Worker.started("wire-out", self._write)
        self._reader: Worker | None = None

    def listen(self, hear: Callable[[bytes], None], ended: Callable[[str], None]) -> None:
        """As of `SiteStream`."""
        self._reader = Worker.started("wire", partial(self._read, hear, ended))

    def send(self, data: bytes) -> None:
        """As of `SiteStream`."""
        self._outbox.put(data)

    @abc.abstractmethod
    def close(self, seconds: float) -> None:
        """As of `SiteStream`."""

    @abc.abstractmethod
    def _say_no_more(self) -> None:
        """Have the other end see that nothing more is told."""

    @abc.abstractmethod
    def _why(self) -> str:
        """Why nothing comes any more."""

    def _next(self) -> bytes:
        """What has come, when something has; nothing at the end."""
        return os.read(self._reads, _READ_BYTES_MAX)

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # that it has ended is seen when it is read
            while (data := self._outbox.get()) is not None:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(self._writes, rest) :]
        with contextlib.suppress(OSError):
            self._say_no_more()

    def _read(self, hear: Callable[[bytes], None], ended: Callable[[str], None]) -> None:
        try:
            while data := self._next():
                hear(data)
            why = self._why()
        except Exception as error:  # noqa: BLE001 - whoever waits for this machine has to hear of it
            why = str(error) if isinstance(error, LockstepError) else f"{type(error).__name__}: {error}"
        ended(why)


class CommandWire(Stream):
    """A command, which is started now.

    Args:
        argv: program and arguments.
        errors: a file for what it writes to standard error.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, argv: Sequence[str], errors: Path) -> None:
        self._errors = errors
        with errors.open("ab") as file:
            # A group of its own: Ctrl-C is for the run, which then ends its tasks in order.
            self._process = subprocess.Popen(
                list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, start_new_session=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        super().__init__(self._process.stdout.fileno(), self._process.stdin.fileno())

    @property
    def pid(self) -> int:
        """Process id of the command."""
        return self._process.pid

    def close(self, seconds: float) -> None:
        """As of `SiteStream`."""
        self._outbox.put(None)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._reader is not None:
            self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _say_no_more(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _why(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.returncode
        how = "its stream ended" if code is None else f"the command that leads to it ended with exit code {code}"
        said = self._errors.read_text(errors="replace").strip()[-_SAID_CHARACTERS_MAX:]
        return f"{how}: {said}" if said else how


class SocketWire(Stream):
    """A socket, at whose other end somebody carries what is said to a site, and back.

    Args:
        near: this end of it.
        why: a file in which whoever carries has written why the stream ended, before it does.
    """

    def __init__(self, near: socket.socket, why: Path) -> None:
        self._near = near
        self._said = why
        super().__init__(near.fileno(), near.fileno())

    def close(self, seconds: float) -> None:
        """As of `SiteStream`."""
        self._outbox.put(None)
        if self._reader is not None:
            self._reader.ends(seconds)
        with contextlib.suppress(OSError):
            self._near.shutdown(socket.SHUT_RDWR)
        for worker in (self._writer, self._reader):
            if worker is not None:
                worker.join()
        self._near.close()

    def _next(self) -> bytes:
        try:
            return super()._next()
        except ConnectionResetError:  # whoever carries has ended, and not read all that was sent
            return b""

    def _say_no_more(self) -> None:
        self._near.shutdown(socket.SHUT_WR)

    def _why(self) -> str:
        said = self._said.read_text(errors="replace").strip() if self._said.exists() else ""
        return said[-_SAID_CHARACTERS_MAX:] or "its stream ended"
