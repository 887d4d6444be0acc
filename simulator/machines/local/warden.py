"""The parent's side of the warden: what must not outlive this process."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

__all__ = ["Warden", "warden"]

# By its file, so that this module can be loaded alone, without the package: the pytest plugin does.
_PROGRAM = Path(__file__).parents[2] / "helpers" / "warden.py"


class Warden:
    """Registers and unregisters what must not outlive the parent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def watch_group(self, group: int) -> None:
        """Kill this process group if the parent ends before `forget_group`."""
        self._say("+group", b"%d" % group)

    def forget_group(self, group: int) -> None:
        """The group has ended; its number may be given to others."""
        self._say("-group", b"%d" % group)

    def watch_directory(self, path: Path) -> None:
        """Remove this directory tree if the parent ends before `forget_directory`. It need not exist yet."""
        self._say("+directory", os.fsencode(path))

    def forget_directory(self, path: Path) -> None:
        """The directory has been removed, or is kept on purpose."""
        self._say("-directory", os.fsencode(path))

    def watch_mark(self, mark: str) -> None:
        """Kill what has this mark in its environment if the parent ends before `forget_mark`."""
        self._say("+mark", mark.encode())

    def forget_mark(self, mark: str) -> None:
        """Nothing has it any more."""
        self._say("-mark", mark.encode())

    def _say(self, verb: str, what: bytes) -> None:
        # A path may hold any byte but this one.
        message = verb.encode() + b" " + what + b"\0"
        with self._lock:
            for _ in range(2):  # once more if the warden itself was killed
                pipe = self._running().stdin
                assert pipe is not None
                try:
                    pipe.write(message)
                    pipe.flush()
                except BrokenPipeError:
                    self._process = None
                else:
                    return

    def _running(self) -> subprocess.Popen[bytes]:
        # After a fork the pipe belongs to the parent; the child needs a warden of its own.
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._owner = os.getpid()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                # A warden of a task's own clusters has to outlive that task.
                env={name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")},
            )
            atexit.register(self._dismiss, self._process, self._owner)
        return self._process

    @staticmethod
    def _dismiss(process: subprocess.Popen[bytes], owner: int) -> None:
        """At a regular end of the parent: let the warden clean up now, and wait for it."""
        if owner == os.getpid() and process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()


warden = Warden()
