"""The standard streams of a command that leads to another machine: `srun`, `ssh`, `kubectl exec -i`."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from simulator.errors import LockstepError

__all__ = ["CommandWire", "Wire"]

_READ_BYTES_MAX = 1 << 20
_SAID_CHARACTERS_MAX = 600


class Wire(Protocol):
    """A stream of bytes to a site, and back."""

    def listen(self, hear: Callable[[bytes], None], ended: Callable[[str], None]) -> None:
        """Have what comes heard, and, once, why nothing comes any more; in a thread of the wire's."""

    def send(self, data: bytes) -> None:
        """Send this, in order; does not block, and does nothing when the other end has gone."""

    def close(self, seconds: float) -> None:
        """End it: the site sees that and leaves, for which it has so many seconds."""


class CommandWire:
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
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._write, name="lockstep-wire-out", daemon=True).start()
        self._reader: threading.Thread | None = None

    @property
    def pid(self) -> int:
        """Process id of the command."""
        return self._process.pid

    def listen(self, hear: Callable[[bytes], None], ended: Callable[[str], None]) -> None:
        """As of `Wire`."""
        self._reader = threading.Thread(target=self._read, args=(hear, ended), name="lockstep-wire", daemon=True)
        self._reader.start()

    def send(self, data: bytes) -> None:
        """As of `Wire`."""
        self._outbox.put(data)

    def close(self, seconds: float) -> None:
        """As of `Wire`."""
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

    def _write(self) -> None:
        assert self._process.stdin is not None
        number = self._process.stdin.fileno()
        with contextlib.suppress(OSError), self._process.stdin:  # that it has ended is seen when it is read
            while (data := self._outbox.get()) is not None:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(number, rest) :]

    def _read(self, hear: Callable[[bytes], None], ended: Callable[[str], None]) -> None:
        assert self._process.stdout is not None
        number = self._process.stdout.fileno()
        try:
            while data := os.read(number, _READ_BYTES_MAX):
                hear(data)
            why = self._why()
        except Exception as error:  # noqa: BLE001 - whoever waits for this machine has to hear of it
            why = str(error) if isinstance(error, LockstepError) else f"{type(error).__name__}: {error}"
        ended(why)

    def _why(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.returncode
        how = "its stream ended" if code is None else f"the command that leads to it ended with exit code {code}"
        said = self._errors.read_text(errors="replace").strip()[-_SAID_CHARACTERS_MAX:]
        return f"{how}: {said}" if said else how
