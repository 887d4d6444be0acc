"""Processes that do several things at the same time, each of which starts processes of its own, such as runs.

Not threads: what ends a run, as Ctrl-C does, is heard in the main thread alone. Nor a pool of `concurrent.futures`, in
which Ctrl-C can leave a lock behind that shutting it down waits for. A process that is told to end leaves the contexts
of what it does, which removes all that belongs to it; where it is killed, wardens do that.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, TypeVar

from simulator import LockstepError, UsageError
from simulator.kernel import die_with_parent

# What a process does once it was told to end: it ends its tasks and removes their files.
_END_SECONDS_MAX = 20.0
_Asked = TypeVar("_Asked")
_Told = TypeVar("_Told")
_Maker = Callable[[], AbstractContextManager[Callable[[Any], Any]]]


class ProcessLost(LockstepError):
    """A process of a crew has ended before it told what it was asked; what it printed says why."""


@dataclass(frozen=True)
class _Raised:
    """An error, of which only the text is sure to pass from one process to another."""

    text: str
    usage: bool


@dataclass(frozen=True)
class Begun(Generic[_Told]):
    """What one process of a crew does."""

    process: Connection
    free: list[Connection]

    def fileno(self) -> int:
        """The number of a file that can be read as soon as it is done, for `multiprocessing.connection.wait`."""
        return self.process.fileno()

    def wait(self) -> _Told:
        """What comes of it; once.

        Raises:
            LockstepError: as what was asked for does.
            ProcessLost: the process has ended.
        """
        try:
            found: _Told | _Raised = self.process.recv()
        except (EOFError, ConnectionError):
            raise ProcessLost("a process that makes runs has ended before its run") from None
        self.free.append(self.process)
        if isinstance(found, _Raised):
            raise (UsageError if found.usage else LockstepError)(found.text)
        return found


@dataclass(frozen=True)
class Crew(Generic[_Asked, _Told]):
    """Processes that do what they are asked; each does one thing at a time.

    Attributes:
        free: those that do nothing now.
    """

    free: list[Connection]

    def begin(self, asked: _Asked) -> Begun[_Told]:
        """Have one that is free begin."""
        process = self.free.pop()
        with contextlib.suppress(ConnectionError):  # it has ended, which is said where it is waited for
            process.send(asked)
        return Begun(process, self.free)


@contextlib.contextmanager
def crew_of(size: int, make: _Maker) -> Iterator[Crew[Any, Any]]:
    """So many processes; however this is left, they and all that they have started have ended then.

    Args:
        size: how many.
        make: entered in each process as soon as it is there, and left when the process ends; it gives what is called
            there with what is asked.
    """
    context = get_context("spawn")
    started: list[tuple[SpawnProcess, Connection]] = []
    try:
        for _ in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, make))
            started.append((process, ours))
            process.start()
            theirs.close()  # so that the end of the process is the end of the pipe
        yield Crew([ours for _, ours in started])
    finally:
        _end(started)


def _end(started: list[tuple[SpawnProcess, Connection]]) -> None:
    """Tell all to end, and only then wait for each, since it takes a while."""
    begun = [process for process, _ in started if process.pid is not None]
    for process in begun:
        process.terminate()
    for process in begun:
        process.join(_END_SECONDS_MAX)
        if process.exitcode is None:
            process.kill()
            process.join()
    for _, ours in started:
        ours.close()


def _work(connection: Connection, make: _Maker) -> None:
    signal.signal(signal.SIGINT, _nothing)  # from a terminal all get it, and the parent decides
    signal.signal(signal.SIGHUP, _nothing)
    signal.signal(signal.SIGTERM, _told_to_end)
    die_with_parent()
    with contextlib.suppress(EOFError, KeyboardInterrupt, BrokenPipeError):
        try:
            with make() as run:
                while True:
                    connection.send(_told_of(run, connection.recv()))
        except LockstepError as error:  # of what was to be made, which is told to the one who waits
            connection.recv()
            connection.send(_Raised(str(error), isinstance(error, UsageError)))


def _told_of(run: Callable[[Any], Any], asked: Any) -> Any:
    try:
        return run(asked)
    except LockstepError as error:
        return _Raised(str(error), isinstance(error, UsageError))


def _told_to_end(number: int, frame: object) -> None:
    """As Ctrl-C; once, since a second one would break off the tidying that the first has begun."""
    signal.signal(signal.SIGTERM, _nothing)
    raise KeyboardInterrupt


def _nothing(number: int, frame: object) -> None:
    """Unlike an ignored signal, one that is handled by nothing is not ignored in what is started."""
