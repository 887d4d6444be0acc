"""Runs that are under way at the same time, each in a process of its own, which starts the tasks of its run.

Not threads: what ends a run, as Ctrl-C does, is heard in the main thread alone. A process that is told to end leaves
the contexts of its run, which removes all that belongs to it; where it is killed, its warden does that.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, TypeVar

from harness.subject.strategies import StrategyCase
from simulator import LockstepError, UsageError
from simulator.kernel import die_with_parent

__all__ = ["Crew", "check_jobs", "crew_of"]

# What a process does once it was told to end: it ends its tasks and removes their files.
_END_SECONDS_MAX = 20.0
_Asked = TypeVar("_Asked")
_Told = TypeVar("_Told")


def check_jobs(jobs: int, case: StrategyCase) -> None:
    """Whether so many runs of a strategy can be under way at once.

    Raises:
        UsageError: they cannot, as they share machines or GPUs.
    """
    if jobs > 1 and (case.over is not None or case.device_kind != "cpu"):
        raise UsageError("--jobs: runs on machines or GPUs are made one after the other; leave it out")


@dataclass
class Crew(Generic[_Asked, _Told]):
    """Processes that do what they are asked; each does one thing at a time.

    Attributes:
        free: those that do nothing now.
    """

    free: list[Connection]

    def begin(self, asked: _Asked) -> Callable[[], _Told]:
        """Have one that is free begin, and return what waits for what it tells.

        The latter raises:
            LockstepError: as what was asked for does.
            ChildProcessError: the process has ended.
        """
        worker = self.free.pop()
        worker.send(asked)

        def told() -> _Told:
            try:
                found: _Told | _Raised = worker.recv()
            except EOFError:
                raise ChildProcessError("a process that ran plans has ended without a result") from None
            self.free.append(worker)
            if isinstance(found, _Raised):
                raise (UsageError if found.usage else LockstepError)(found.text)
            return found

        return told


@dataclass(frozen=True)
class _Raised:
    """An error, of which only the text is sure to pass from one process to another."""

    text: str
    usage: bool


@contextlib.contextmanager
def crew_of(jobs: int, make: Callable[[], Callable[[Any], Any]]) -> Iterator[Crew[Any, Any]]:
    """So many processes; however this is left, they and all that they have started have ended then.

    Args:
        jobs: how many.
        make: called once in each process; it returns what is called there with what is asked.
    """
    context = get_context("spawn")
    started: list[tuple[SpawnProcess, Connection]] = []
    try:
        for _ in range(jobs):
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


def _work(connection: Connection, make: Callable[[], Callable[[Any], Any]]) -> None:
    signal.signal(signal.SIGINT, _nothing)  # from a terminal all get it, and the parent decides
    signal.signal(signal.SIGHUP, _nothing)
    signal.signal(signal.SIGTERM, _told_to_end)
    die_with_parent()
    with contextlib.suppress(EOFError, KeyboardInterrupt, BrokenPipeError):
        run = None
        while True:
            asked = connection.recv()
            try:
                run = make() if run is None else run
                told = run(asked)
            except LockstepError as error:
                told = _Raised(str(error), isinstance(error, UsageError))
            connection.send(told)


def _told_to_end(number: int, frame: object) -> None:
    """As Ctrl-C; once, since a second one would break off the tidying that the first has begun."""
    signal.signal(signal.SIGTERM, _nothing)
    raise KeyboardInterrupt


def _nothing(number: int, frame: object) -> None:
    """Unlike an ignored signal, one that is handled by nothing is not ignored in what is started."""
