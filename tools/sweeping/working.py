"""Runs cases, several at once if asked; Ctrl-C ends them all and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from multiprocessing import get_context
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
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=die_with_parent) as pool:
        # No more are handed over than can run: after Ctrl-C, which each process gets by itself, none begins.
        running = {pool.submit(_one, case, keep, most, timeout) for case in islice(waiting, jobs)}
        while running:
            done, running = _first(running)
            running |= {pool.submit(_one, case, keep, most, timeout) for case in islice(waiting, len(done))}
            for future in done:
                yield future.result()


def _first(running: set[Future[Result]]) -> tuple[set[Future[Result]], set[Future[Result]]]:
    done, rest = wait(running, return_when=FIRST_COMPLETED)
    return set(done), set(rest)


def _one(case: Case, keep: Path | None, most: int, timeout: float) -> Result:
    with scratch("sweep") as directory:
        return run_case(case, directory, None if keep is None else keep / case.name, most, timeout)
