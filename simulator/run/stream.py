"""Shows what tasks write while they run, each line with its task in front."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from simulator.journal.startup_lines import StartupLines
from simulator.threads import Worker

_POLL_SECONDS = 0.1
_ESCAPE, _PLAIN = "\x1b[", "\x1b[0m"


class LogStream:
    """Follows log files and copies complete lines to `out` as `[worker-1] line`.

    Of a progress bar, which writes over its line again and again, that is its last state. A colour ends with its line,
    since the next one is another task's.

    Args:
        logs: the tasks, and where each of them writes.
        out: where to.
        tf_log: whether lines are copied too that TensorFlow writes at its start.
    """

    def __init__(self, logs: Iterable[tuple[str, Path]], out: TextIO, *, tf_log: bool = True) -> None:
        self._tf_log = tf_log
        self.hidden = 0
        self._logs = [(f"[{task.replace(':', '-')}] ", path) for task, path in logs]
        self._position = {path: 0 for _, path in self._logs}
        self._startup = {path: StartupLines() for _, path in self._logs}
        self._out = out
        self._stop = threading.Event()
        self._worker = Worker.started("log-stream", self._follow)

    def close(self) -> None:
        """Copy what is left and stop."""
        self._stop.set()
        self._worker.join()

    def _follow(self) -> None:
        while not self._stop.wait(_POLL_SECONDS):
            self._copy(last=False)
        self._copy(last=True)

    def _copy(self, *, last: bool) -> None:
        for prefix, path in self._logs:
            try:
                with path.open("rb") as file:
                    file.seek(self._position[path])
                    data = file.read()
            except FileNotFoundError:
                continue
            end = len(data) if last else data.rfind(b"\n") + 1
            self._position[path] += end
            # Not `splitlines`, for which a carriage return ends a line too.
            text = data[:end].decode(errors="replace").removesuffix("\n")
            for line in text.split("\n") if end else ():
                if not self._tf_log and self._startup[path].hides(line):
                    self.hidden += 1
                else:
                    self._out.write(f"{prefix}{_visible(line)}\n")
        self._out.flush()


def _visible(line: str) -> str:
    shown = line.rstrip("\r").rpartition("\r")[2]
    return shown + _PLAIN if _ESCAPE in shown else shown
