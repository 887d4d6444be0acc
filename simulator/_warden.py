"""A process that outlives the parent just long enough to clean up after it.

The parent keeps the write end of a pipe open. Whatever ends the parent, SIGKILL included, closes the pipe; the warden
then kills every process group and removes every directory that is still registered. Tasks also ask the kernel for
PR_SET_PDEATHSIG, but that reaches neither the processes they started nor the files they left.

Run as a program it is the warden; imported it is the parent's side. It uses the standard library alone, so that it
starts in 15 ms.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

__all__ = ["Warden", "warden"]


class Warden:
    """The parent's side: registers and unregisters what must not outlive the parent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def watch_group(self, group: int) -> None:
        """Kill this process group if the parent ends before `forget_group`."""
        self._say(f"+group {group}")

    def forget_group(self, group: int) -> None:
        """The group has ended; its number may be given to others."""
        self._say(f"-group {group}")

    def watch_directory(self, path: Path) -> None:
        """Remove this directory tree if the parent ends before `forget_directory`."""
        self._say(f"+directory {path}")

    def forget_directory(self, path: Path) -> None:
        """The directory has been removed, or is kept on purpose."""
        self._say(f"-directory {path}")

    def _say(self, line: str) -> None:
        with self._lock:
            for _ in range(2):  # once more if the warden itself was killed
                pipe = self._running().stdin
                assert pipe is not None
                try:
                    pipe.write(line.encode() + b"\n")
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
                [sys.executable, "-I", "-S", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
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


def _main() -> None:
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    groups: set[int] = set()
    directories: set[str] = set()
    for raw in sys.stdin.buffer:
        verb, _, what = raw.decode().rstrip("\n").partition(" ")
        if verb == "+group":
            groups.add(int(what))
        elif verb == "-group":
            groups.discard(int(what))
        elif verb == "+directory":
            directories.add(what)
        elif verb == "-directory":
            directories.discard(what)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    for directory in directories:
        # A task killed just now may still be writing its last page; a second pass finds what the first one raced with.
        shutil.rmtree(directory, ignore_errors=True)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    _main()
