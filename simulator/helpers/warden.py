"""A process that outlives the parent just long enough to clean up after it.

The parent keeps the write end of a pipe open. Whatever ends the parent, SIGKILL included, closes the pipe; the warden
then kills every process group and removes every directory that is still registered, and kills whatever has the mark of
a run in its environment: what a task starts inherits the mark, also what leaves its process group. Tasks also ask the
kernel for PR_SET_PDEATHSIG, but that reaches neither the processes they started nor the files they left.

It is run as a program, and uses the standard library alone, so that it
starts in 15 ms.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Iterator

__all__ = ["MARK_VARIABLE", "kill_marked", "remove_tree"]

MARK_VARIABLE = "LOCKSTEP_RUN"
_KILL_SECONDS_MAX = 5.0


def remove_tree(directory: str | os.PathLike[str]) -> str:
    """Remove a directory of our own with all that is in it, read-only folders too; why it is still there, or nothing.

    A task killed just now may still be writing its last page: what one pass has raced with, the next one finds.
    """
    shutil.rmtree(directory, ignore_errors=True)
    if os.path.lexists(directory):
        _open_folders(directory)
        shutil.rmtree(directory, ignore_errors=True)
    errors: list[str] = []
    if os.path.lexists(directory):
        # With `onexc`, Python 3.12 warns of this name.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            shutil.rmtree(directory, onerror=lambda call, path, info: errors.append(str(info[1])))
    return errors[0] if errors and os.path.lexists(directory) else ""


def _open_folders(directory: str | os.PathLike[str]) -> None:
    """Let the owner change every folder of this tree: without that, only root can remove what is in one."""
    with contextlib.suppress(OSError):
        os.chmod(directory, 0o700)  # noqa: PTH101 - faster to import
    for folder, names, _ in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 - as above
            if not os.path.islink(path):  # noqa: PTH114 - as above
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)  # noqa: PTH101 - as above


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
    watched: dict[bytes, set[bytes]] = {b"group": set(), b"mark": set(), b"directory": set()}
    for message in _messages():
        verb, _, what = message.partition(b" ")
        if verb.startswith(b"+"):
            watched[verb[1:]].add(what)
        else:
            watched[verb[1:]].discard(what)
    for group in watched[b"group"]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(int(group), signal.SIGKILL)
    for mark in watched[b"mark"]:
        kill_marked(mark.decode())
    for directory in watched[b"directory"]:
        remove_tree(os.fsdecode(directory))


def _messages() -> Iterator[bytes]:
    """What the parent has said until its end; a last word that was cut short could name another directory."""
    rest = b""
    while piece := os.read(sys.stdin.fileno(), 1 << 16):
        *whole, rest = (rest + piece).split(b"\0")
        yield from whole


if __name__ == "__main__":
    _main()
