"""The process of one test file, seen from the session that asks it to run tests."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import multiprocess
from multiprocess import connection

from harness.tf_tests.inside import entry_point, stacks
from harness.tf_tests.inside.messages import SessionOrder
from simulator.helpers.warden import MARK_VARIABLE, kill_marked
from simulator.launch import at_import, forkserver
from simulator.machines.local.scratch import make_scratch, remove_scratch
from simulator.machines.local.warden import warden
from simulator.wire.spec import SEMAPHORES_VARIABLE

_PRELOAD = ("harness.tf_tests.inside._preload",)
_GOODBYE_SECONDS_MAX = 2.0
_STACKS_SECONDS_MAX = 3.0
_GONE_SECONDS_MAX = 2.0
_LOG_CHARACTERS_MAX = 20_000


class FileProcessEnded(Exception):
    """Raised when the process has ended and owes an answer; `str` says how."""


class TimedOut(Exception):
    """Raised when no answer came in time; `str` is the stacks of the file's processes."""


class FileProcess:
    """Started at once; ended, with its tasks and whatever they have started, by `end`."""

    def __init__(self, path: Path, directory: Path, options: Mapping[str, Any], variables: Mapping[str, str]) -> None:
        self._mark = uuid.uuid4().hex
        warden.watch_mark(self._mark)
        self.scratch = make_scratch("tf-tests")
        self._log = self.scratch / "log"
        environ = {
            **os.environ,
            **variables,
            MARK_VARIABLE: self._mark,
            SEMAPHORES_VARIABLE: f"/mp-{self._mark}",
            "TMPDIR": str(self.scratch / "tmp"),
        }
        order = SessionOrder(str(path), str(directory), options, environ, str(self.scratch), str(self._log))
        self._connection, theirs = multiprocess.Pipe()
        self._captured, their_captured = multiprocess.Pipe()
        with theirs, their_captured:
            start = forkserver(_PRELOAD, at_import(environ)).start
            self._launched = start(entry_point.enter, (theirs, their_captured, order), path.name)

    def send(self, message: object) -> None:
        """Tell it something; that it has ended shows when it is asked."""
        with contextlib.suppress(OSError):
            self._connection.send(message)

    def receive(self, seconds: float) -> Any:
        """The next thing it says.

        Raises:
            Ended: it said nothing and ended.
            TimedOut: it said nothing for so long.
        """
        if not self._connection.poll(seconds):
            raise TimedOut(self._stacks())
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            raise FileProcessEnded(self._how_it_ended()) from None

    def log(self) -> str:
        """The end of what it has written: what its pytest has captured of the current test, if it still says so."""
        captured = ""
        with contextlib.suppress(OSError, EOFError):
            self._captured.send("what has been captured?")
            if self._captured.poll(_GOODBYE_SECONDS_MAX):
                captured = self._captured.recv()
        with contextlib.suppress(OSError):
            captured = self._log.read_text(errors="replace") + captured
        return captured[-_LOG_CHARACTERS_MAX:]

    def end(self) -> None:
        """Let it go, kill what is left of it and of its tasks, and remove its directory."""
        self._connection.close()
        self._captured.close()
        self._launched.end(_GOODBYE_SECONDS_MAX)
        for _ in _until(_GONE_SECONDS_MAX):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._launched.pid, signal.SIGKILL)
                continue
            break
        kill_marked(self._mark)
        warden.forget_mark(self._mark)
        remove_scratch(self.scratch)
        warden.forget_directory(self.scratch)

    def _how_it_ended(self) -> str:
        connection.wait([self._launched.sentinel], _GOODBYE_SECONDS_MAX)
        code = self._launched.exit_code()
        if code is None:
            return "stopped answering"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def _stacks(self) -> str:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._launched.pid, stacks.SIGNAL)
        found: dict[str, str] = {}
        for _ in _until(_STACKS_SECONDS_MAX):
            found = stacks.read(self.scratch)
            if found and all(found.values()):
                break
        names = {str(self._launched.pid): "the process of the file"}
        said = {pid: text for pid, text in found.items() if text}
        return "\n".join(f"stacks of {names.get(pid, 'task')} {pid}:\n{text}" for pid, text in said.items())


def _until(seconds: float) -> Iterator[None]:
    """Again and again, a little apart, for so long."""
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        yield
        select.select([], [], [], 0.02)
