"""Runs cases, several at once if asked; however the sweep ends, nothing is left behind."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path

from simulator.kernel import die_with_parent
from simulator.machines.local.scratch import scratch
from tools.sweeping.cases import Case
from tools.sweeping.judging import Result, run_case

__all__ = ["results_of"]


def results_of(cases: Iterable[Case], jobs: int, keep: Path | None, most: int, timeout: float) -> Iterator[Result]:
    """The result of each case, in the order in which they end.

    Args:
        cases: what to run.
        jobs: how many at once; each is a process, which starts others.
        keep: the directory in which each case leaves its run, None to leave nothing.
        most: errors to inject into each.
        timeout: seconds for each run of each.
    """
    if jobs == 1:
        for case in cases:
            yield _one(case, keep, most, timeout)
        return
    waiting = iter(cases)
    running: dict[Connection, Case] = {}
    with _workers(jobs, keep, most, timeout) as workers:
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


def _received(worker: Connection, case: Case) -> Result:
    try:
        result: Result = worker.recv()
    except EOFError:
        raise ChildProcessError(f"the process that ran {case.name} has ended without a result") from None
    return result


@contextlib.contextmanager
def _workers(jobs: int, keep: Path | None, most: int, timeout: float) -> Iterator[list[Connection]]:
    """Processes that run the cases they are sent; killed in the end, since nothing that they start outlives them.

    Not a pool of `concurrent.futures`, in which Ctrl-C can leave a lock behind that shutting it down waits for.
    """
    context = get_context("spawn")
    with contextlib.ExitStack() as stack:
        workers = []
        for _ in range(jobs):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, keep, most, timeout))
            process.start()
            theirs.close()  # so that the end of the process is the end of the pipe
            stack.callback(process.join)
            stack.callback(process.terminate)
            workers.append(ours)
        yield workers


def _work(cases: Connection, keep: Path | None, most: int, timeout: float) -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, _nothing)  # from a terminal all get it, and the parent decides
    with contextlib.suppress(EOFError):
        while True:
            cases.send(_one(cases.recv(), keep, most, timeout))


def _nothing(number: int, frame: object) -> None:
    """Unlike an ignored signal, one that is handled by nothing is not ignored in what is started."""


def _one(case: Case, keep: Path | None, most: int, timeout: float) -> Result:
    with scratch("sweep") as directory:
        return run_case(case, directory, None if keep is None else keep / case.name, most, timeout)
