"""What runs in a worker of Ray on a node: it starts a site there, and hands over what goes to it and comes from it.

Ray sends this class by value, so that only the interpreter of the site has to have Lockstep; it imports nothing of it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

_READ_BYTES_MAX = 1 << 20
_END_SECONDS_MAX = 5.0
_ALLOCATOR = "/ray/core/libjemalloc.so"


class Carrier:
    """An actor: a process there, which is started now.

    It does no more than that, so that its end, however it comes, is the end of the site's input, by which that leaves.

    Args:
        argv: program and arguments.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        _compete_as_the_node()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - until the actor ends
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environ_of_the_node(),
            start_new_session=True,
        )

    def write(self, data: bytes) -> None:
        """Have it read this; nothing: no more comes."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # that it has ended is seen by whoever reads
            if data:
                self._process.stdin.write(data)
                self._process.stdin.flush()
            else:
                self._process.stdin.close()

    def read(self) -> bytes:
        """What it has written, as soon as there is something; nothing: no more comes."""
        assert self._process.stdout is not None
        return os.read(self._process.stdout.fileno(), _READ_BYTES_MAX)

    def end(self) -> str:
        """See it to its end, and tell how that was, for a message."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS_MAX)
        with self._errors as errors:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        how = f"its site ended with exit code {self._process.returncode}"
        return f"{how}: {said}" if said else how


def _compete_as_the_node() -> None:
    """Give this process, and what it starts, the priority of `ray start`: Ray puts its workers behind others, by 15.

    A training would be slower there than it is otherwise, and a step be heard late. Not everybody may: then it is as
    `RAY_worker_niceness` had it.
    """
    wanted = os.getpriority(os.PRIO_PROCESS, os.getppid())
    # A priority is that of a thread; the others of Ray's in this process hand over what is said.
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), wanted)


def _environ_of_the_node() -> dict[str, str]:
    """The variables that `ray start` had there: those of a worker bound threads and hide devices from its tasks.

    They are those of the worker's parent, but for the allocator that Ray puts under its own programs.
    """
    words = Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0")
    pairs = (os.fsdecode(word).partition("=") for word in words if word)
    found = {name: value for name, _, value in pairs}
    if found.get("LD_PRELOAD", "").endswith(_ALLOCATOR):
        del found["LD_PRELOAD"]
    return found
