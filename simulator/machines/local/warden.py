"""The parent's side of the warden: what must not outlive this process."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import subprocess
import sys
import threading
from pathlib import Path

# By its file, so that this module can be loaded alone, without the package: the pytest plugin does.
_PROGRAM = Path(__file__).parents[2] / "helpers" / "warden.py"
# The words `END` and `DONE` of that file.
_END, _DONE = b"end\0", b"done\n"


class Warden:
    """Registers and unregisters what must not outlive the parent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._pid = 0
        # What is watched now.
        self._watched: dict[tuple[str, bytes], None] = {}

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

    def watch_forkserver(self, mark: str) -> None:
        """Kill the forkserver that has this mark, and what was forked from it, when the parent ends."""
        self._say("+forkserver", mark.encode())

    def _say(self, verb: str, what: bytes) -> None:
        with self._lock:
            if self._owner != os.getpid():
                # After a fork the pipe, and what was said through it, belong to the parent.
                self._process, self._owner, self._watched = None, os.getpid(), {}
            key = (verb[1:], what)
            if verb.startswith("+"):
                self._watched[key] = None
            else:
                self._watched.pop(key, None)
            for _ in range(2):  # once more if the warden itself was killed
                is_new = self._process is None or _has_ended(self._process)
                pipe = self._running().stdin
                assert pipe is not None
                # A path may hold any byte but 0. A warden that is new knows nothing of what its predecessor was told.
                told = [(f"+{kind}", name) for kind, name in self._watched] if is_new else [(verb, what)]
                try:
                    pipe.write(b"".join(word.encode() + b" " + name + b"\0" for word, name in told))
                    pipe.flush()
                except BrokenPipeError:
                    self._process = None
                else:
                    return

    @property
    def pid(self) -> int | None:
        """Process id of the warden; `None` before there is anything to watch."""
        if self._process is None:
            return None
        assert self._process.stdout is not None
        self._pid = self._pid or int(self._process.stdout.readline())
        return self._pid

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or _has_ended(self._process):
            self._pid = 0
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_PROGRAM), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                # A warden of a task's own clusters has to outlive that task.
                env={name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")},
            )
            atexit.register(self._dismiss, self._process, self._owner)
        return self._process

    def _dismiss(self, process: subprocess.Popen[bytes], owner: int) -> None:
        """At a regular end of the parent: let the warden clean up now, and wait for it."""
        if owner != os.getpid() or process.stdin is None or process.stdin.closed:
            return
        if not _has_done(process) and process is self._process and self._watched:
            # It was killed meanwhile, and another one does what is left to do.
            self._process = None
            kind, name = next(iter(self._watched))
            self._say(f"+{kind}", name)
            _has_done(self._running())


def _has_done(process: subprocess.Popen[bytes]) -> bool:
    """Have a warden clean up, and wait for its end; whether it had come to that by itself."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        # Not only closed: a child that was forked from here may have the pipe as well.
        process.stdin.write(_END)
        process.stdin.close()
    said = process.stdout.read()  # until the warden itself ends
    process.stdout.close()
    process.wait()
    return said.endswith(_DONE)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the warden is gone. It is no child of this process, but the other end of its output is its alone."""
    process.poll()  # the child that has forked it
    assert process.stdout is not None
    poll = select.poll()
    poll.register(process.stdout.fileno(), 0)  # which reports the other end's close alone
    return bool(poll.poll(0))


warden = Warden()
