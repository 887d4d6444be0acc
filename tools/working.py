"""Runs cases, several at once if asked; however a tool ends, nothing is left behind."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol, TypeVar

from simulator.kernel import die_with_parent

__all__ = ["results_of"]


class Named(Protocol):
    """What is run: anything that can be sent to a process and has a name."""

    @property
    def name(self) -> str:
        """What messages call it."""


_Case = TypeVar("_Case", bound=Named)
_Result = TypeVar("_Result")


def results_of(cases: Iterable[_Case], jobs: int, run: Callable[[_Case], _Result]) -> Iterator[_Result]:
    """The result of each case, in the order in which they end.

    Args:
        cases: what to run.
        jobs: how many at once; each is a process, which starts others.
        run: what makes a result of a case; sent to the processes, once.
    """
    if jobs == 1:
        yield from map(run, cases)
        return
    waiting = iter(cases)
    running: dict[Connection, _Case] = {}
    with _workers(jobs, run) as workers:
        free = list(workers)
        while True:
            for worker, case in zip(free, waiting, strict=False):
                worker.send(case)
                running[worker] = case
            if not running:
                return
            free = [worker for worker in wait(list(running)) if isinstance(worker, Connection)]
            for worker in free:
                yield _received(worker, running.pop(worker))


def _received(worker: Connection, case: Named) -> Any:
    try:
        result = worker.recv()
    except EOFError:
        raise ChildProcessError(f"the process that ran {case.name} has ended without a result") from None
    return result


@contextlib.contextmanager
def _workers(jobs: int, run: Callable[[Any], Any]) -> Iterator[list[Connection]]:
    """Processes that run the cases they are sent; killed in the end, since nothing that they start outlives them.

    Not a pool of `concurrent.futures`, in which Ctrl-C can leave a lock behind that shutting it down waits for.
    """
    context = get_context("spawn")
    with contextlib.ExitStack() as stack:
        workers = []
        for _ in range(jobs):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, run))
            process.start()
            theirs.close()  # so that the end of the process is the end of the pipe
            stack.callback(process.join)
            stack.callback(process.terminate)
            workers.append(ours)
        yield workers


def _work(cases: Connection, run: Callable[[Any], Any]) -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, _nothing)  # from a terminal all get it, and the parent decides
    with contextlib.suppress(EOFError):
        while True:
            cases.send(run(cases.recv()))


def _nothing(number: int, frame: object) -> None:
    """Unlike an ignored signal, one that is handled by nothing is not ignored in what is started."""
