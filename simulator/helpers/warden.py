"""A process that outlives the parent just long enough to clean up after it.

The parent keeps the write end of a pipe open. Whatever ends the parent, SIGKILL included, closes the pipe; where a
child that the parent has forked keeps it open, the kernel says that the parent has ended. The warden then kills every
process group and removes every directory that is still registered, and kills what has a mark in its environment. A run
has one, which whatever a task starts inherits, also if it leaves its process group. A forkserver has one, and so have
its adopters and all that is forked from it, whether its number was ever told or not; they adopt what has lost its
parents, so that this is found without a mark as well. Tasks also ask the kernel for PR_SET_PDEATHSIG,
but that reaches neither the processes they started nor the files they left.

It is run as a program, and uses the standard library alone, so that it
starts in 15 ms.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator

# The last word of a parent that ends in order, and that of the warden itself.
END, DONE = b"end", b"done\n"
MARK_VARIABLE = "LOCKSTEP_RUN"
# Another one, since a forkserver may belong to a task of a run, whose mark it keeps.
FORKSERVER_VARIABLE = "LOCKSTEP_FORKSERVER"
_SEMAPHORES_FOLDER = "/dev/shm"  # noqa: S108 - where the C library has them
_KILL_SECONDS_MAX = 5.0
# How long `exec` may take from the old environment to the new one.
_EXEC_SECONDS_MAX = 0.1


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
    """SIGKILL every process of this user that began with `LOCKSTEP_RUN=mark` in its environment; their process ids.

    Semaphores with the mark in their names go too.
    """
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    killed = _kill_all(lambda: {pid: _carries(pid, wanted) for pid in _processes()})
    with contextlib.suppress(OSError):
        for name in os.listdir(_SEMAPHORES_FOLDER):  # noqa: PTH208 - faster to import
            if mark in name:
                os.unlink(f"{_SEMAPHORES_FOLDER}/{name}")  # noqa: PTH108 - as above
    return killed


def _kill_forked(mark: str) -> list[int]:
    """SIGKILL the forkserver with this mark and whatever was forked from it and still is what it was."""
    wanted = f"{FORKSERVER_VARIABLE}={mark}".encode()

    def belongs(pid: int) -> bool | None:
        # The command too, which a fork keeps: a stranger may have been started while the parent had the mark to hand
        # on.
        return _carries(pid, wanted) and any(b"multiprocess.forkserver" in word for word in _said(pid, "cmdline"))

    for pid in filter(belongs, _processes()):
        kill_orphans(pid)
    return _kill_all(lambda: {pid: belongs(pid) for pid in _processes()})


def kill_orphans(adopter: int, server: int | None = None) -> list[int]:
    """SIGKILL what a process has adopted, with all that this has started; their process ids.

    Each warden is left alone, which has left its parent to clean up after it.

    Args:
        adopter: the process.
        server: one below it, which is left alone with all that it has started; those between the two adopt as well.
            If it has ended, nothing is killed.
    """
    return _kill_all(lambda: {pid: not _is_warden(pid) for pid in _descendants(adopter, server)})


def _is_warden(pid: int) -> bool:
    return any(word.endswith(b"/simulator/helpers/warden.py") for word in _said(pid, "cmdline"))


def _descendants(adopter: int, server: int | None) -> list[int]:
    """The living ones of a process, but for the line down to this one and what is below that."""
    parents: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for pid in _processes():
        # PID (NAME) STATE PARENT ...; the name may hold blanks and parentheses.
        words = b"".join(_said(pid, "stat")).rpartition(b")")[2].split()
        if words and words[0] not in b"ZX":
            parents[pid] = int(words[1])
            children.setdefault(parents[pid], []).append(pid)
    line = [adopter if server is None else server]
    while line[-1] != adopter:
        if line[-1] not in parents:
            return []
        line.append(parents[line[-1]])
    found = [pid for each in line if each != server for pid in children.get(each, ()) if pid not in line]
    for pid in found:  # which grows meanwhile
        found += children.get(pid, ())
    return found


def _carries(pid: int, wanted: bytes) -> bool | None:
    """Whether this is in a process's environment; None in the midst of `exec`, when there is none to be read.

    One that was started without any environment looks the same.
    """
    said = _said(pid, "environ")
    if said != [b""]:
        return wanted in said
    try:
        os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115 - faster
    except OSError:  # it has ended, or is a thread of the kernel
        return False
    return None


def _kill_all(look: Callable[[], dict[int, bool | None]]) -> list[int]:
    began = time.monotonic()
    killed: dict[int, None] = {}
    # Again, since one of them may have started another meanwhile.
    while time.monotonic() < began + _KILL_SECONDS_MAX:
        known = look()
        found = [pid for pid, is_one in known.items() if is_one]
        if not found and (None not in known.values() or time.monotonic() > began + _EXEC_SECONDS_MAX):
            break
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


def _said(pid: int, what: str) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:  # noqa: PTH123 - faster
            return file.read().split(b"\0")
    except OSError:  # it has ended, or is not this user's
        return []


def _main() -> None:
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    watched: dict[bytes, set[bytes]] = {b"group": set(), b"forkserver": set(), b"mark": set(), b"directory": set()}
    ended = _end_of_parent()
    if len(sys.argv) > 1:
        _leave_the_parent()
    for message in _messages(ended):
        verb, _, what = message.partition(b" ")
        if verb.startswith(b"+"):
            watched[verb[1:]].add(what)
        else:
            watched[verb[1:]].discard(what)
    for group in watched[b"group"]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(int(group), signal.SIGKILL)
    for mark in watched[b"forkserver"]:
        _kill_forked(mark.decode())
    for mark in watched[b"mark"]:
        kill_marked(mark.decode())
    for directory in watched[b"directory"]:
        remove_tree(os.fsdecode(directory))
    with contextlib.suppress(OSError):  # the parent has ended, or did not want to know
        os.write(1, DONE)


def _leave_the_parent() -> None:
    """Go on in a process that is not the parent's child: there are parents whose children are all killed at their end.

    Its number is the first line of output, which ends when it does.
    """
    if os.fork():
        os._exit(0)
    with contextlib.suppress(BrokenPipeError):  # the parent may have ended already
        os.write(1, b"%d\n" % os.getpid())


def _messages(ended: int) -> Iterator[bytes]:
    """What the parent has said until its end; a last word that was cut short could name another directory."""
    said = sys.stdin.fileno()
    poll = select.poll()
    for number in (said, ended):
        if number >= 0:
            poll.register(number, select.POLLIN)
    rest = b""
    # What it has said is heard first: only when there is no more does its end count.
    while any(number == said for number, _ in poll.poll()) and (piece := os.read(said, 1 << 16)):
        *whole, rest = (rest + piece).split(b"\0")
        for message in whole:
            if message == END:
                return
            yield message


def _end_of_parent() -> int:
    """A descriptor that becomes readable when the process ends that is named on the command line; -1 without one."""
    try:
        parent = int(sys.argv[1])
        number = os.pidfd_open(parent)
    except (IndexError, AttributeError, OSError):  # nobody is named, or the kernel cannot say, and the pipe has to do
        return -1
    # If it has ended before, this may be another process of that number.
    return number if os.getppid() == parent else -1


if __name__ == "__main__":
    _main()
