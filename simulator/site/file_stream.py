"""Sends what tasks write, while they write it: the run keeps their logs, and what they leave."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from simulator.machines.local.machine import stem_of
from simulator.machines.protocol import LEFT
from simulator.threads import Worker
from simulator.wire.site import FromSite, Left, SiteBroken, Wrote

_POLL_SECONDS = 0.05
_PIECE_BYTES_MAX = 1 << 20
# How a piece of a file is told: its bytes, and whether what came before has gone.
_Told = Callable[[bytes, bool], FromSite]


class FileStream:
    """Follows the files of each of these tasks until `close`.

    Args:
        directory: of the run there, with folders of logs, of stacks, and of what tasks leave.
        tasks: whose files.
        say: sends a message.
    """

    def __init__(self, directory: Path, tasks: tuple[str, ...], say: Callable[[FromSite], None]) -> None:
        self._say = say
        self._left = directory / LEFT
        self._files = {
            (task, kind): directory / kind / f"{stem_of(task)}.{suffix}"
            for task in tasks
            for kind, suffix in (("logs", "log"), ("stacks", "txt"))
        }
        self._read: dict[Path, int] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._worker = Worker.started("following", self._follow, self._give_up)

    def close(self) -> None:
        """Send what is left, and stop."""
        self._stop.set()
        self._worker.join()
        self.catch_up()

    def catch_up(self, task: str = "") -> None:
        """Send what this task, or any, has written up to now."""
        with self._lock:
            for (owner, kind), path in self._files.items():
                if task in ("", owner):
                    self._send(path, partial(Wrote, owner, kind))
            # Whose these are does not matter: a run has few of them.
            for path in self._found():
                self._send(path, partial(Left, str(path.relative_to(self._left))))

    def _follow(self) -> None:
        while not self._stop.wait(_POLL_SECONDS):
            self.catch_up()

    def _give_up(self, error: BaseException) -> None:
        self._say(SiteBroken("what tasks write is not sent any more", type(error).__name__, str(error)))

    def _found(self) -> Iterator[Path]:
        with contextlib.suppress(FileNotFoundError):  # a folder that has just gone
            yield from (path for path in sorted(self._left.rglob("*")) if path.is_file() and not path.is_symlink())

    def _send(self, path: Path, told: _Told) -> None:
        try:
            with path.open("rb") as file:
                began = self._read.get(path, 0)
                if file.seek(0, 2) < began:  # it has been begun anew, by the next process of the task
                    began = 0
                file.seek(began)
                while data := file.read(_PIECE_BYTES_MAX):
                    self._say(told(data, began == 0))
                    began += len(data)
                self._read[path] = began
        except FileNotFoundError:
            return
