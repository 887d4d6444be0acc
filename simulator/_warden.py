"""A process that outlives the parent just long enough to clean up after it.

The parent keeps the write end of a pipe open. Whatever ends the parent, SIGKILL included, closes the pipe; the warden
then kills every process group and removes every directory that is still registered, and kills whatever has the mark of
a run in its environment: what a task starts inherits the mark, also what leaves its process group. Tasks also ask the
kernel for PR_SET_PDEATHSIG, but that reaches neither the processes they started nor the files they left.

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
import time
from pathlib import Path

__all__ = ["MARK_VARIABLE", "Warden", "kill_marked", "warden"]

MARK_VARIABLE = "LOCKSTEP_RUN"
_KILL_SECONDS_MAX = 5.0


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

    def watch_mark(self, mark: str) -> None:
        """Kill what has this mark in its environment if the parent ends before `forget_mark`."""
        self._say(f"+mark {mark}")

    def forget_mark(self, mark: str) -> None:
        """Nothing has it any more."""
        self._say(f"-mark {mark}")

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
                # A warden of a task's own clusters has to outlive that task.
                env={name: value for name, value in os.environ.items() if name != MARK_VARIABLE},
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


def kill_marked(mark: str) -> list[int]:
    """SIGKILL every process of this user that has `LOCKSTEP_RUN=mark` in its environment; their process ids."""
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    deadline = time.monotonic() + _KILL_SECONDS_MAX
    killed: dict[int, None] = {}
    # Again, since one of them may have started another meanwhile.
    while (found := [pid for pid in _processes() if wanted in _environment(pid)]) and time.monotonic() < deadline:
        for pid in found:
            killed[pid] = None
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    return list(killed)


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - faster
    except OSError:
        return []


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - faster
            return file.read().split(b"\0")
    except OSError:  # it has ended, or is not this user's
        return []


def _main() -> None:
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    groups: set[int] = set()
    directories: set[str] = set()
    marks: set[str] = set()
    for raw in sys.stdin.buffer:
        verb, _, what = raw.decode().rstrip("\n").partition(" ")
        if verb == "+group":
            groups.add(int(what))
        elif verb == "-group":
            groups.discard(int(what))
        elif verb == "+mark":
            marks.add(what)
        elif verb == "-mark":
            marks.discard(what)
        elif verb == "+directory":
            directories.add(what)
        elif verb == "-directory":
            directories.discard(what)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    for mark in marks:
        kill_marked(mark)
    for directory in directories:
        # A task killed just now may still be writing its last page; a second pass finds what the first one raced with.
        shutil.rmtree(directory, ignore_errors=True)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    _main()
