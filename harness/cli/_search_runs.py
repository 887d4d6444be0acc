"""The runs of `lockstep search`: here, or in several processes, and with what the page shows of those that failed."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator import UsageError

if TYPE_CHECKING:
    from harness.report.timeline import Timeline
    from harness.search import PlanOutcome, Subject
    from harness.subject.strategies import StrategyCase
    from simulator import FaultPlan

    Ran = tuple[PlanOutcome, list[Timeline]]


def check_jobs(jobs: int, case: StrategyCase) -> None:
    """Whether so many runs of a strategy can be under way at once.

    Raises:
        UsageError: they cannot, as they share GPUs.
    """
    if jobs > 1 and case.device_kind != "cpu":
        raise UsageError("--jobs: runs on GPUs are made one after the other; leave it out")


@dataclass(frozen=True)
class SubjectElsewhere:
    """Makes the subject of a search once more, in another process, and takes its reference from the same cache.

    That is made beside it: until a plan is to be run, the process has only a forkserver import what tasks need, and
    reaches machines. It has sites of its own on them, so that one run may lose a machine that others have.

    Attributes:
        program: what is run, as on the command line.
        case: its strategy.
        options: further ones of `subject_of`.
        cache: where the reference is.
        drawn: whether a page shows the runs.
    """

    program: str
    case: StrategyCase
    options: dict[str, Any]
    cache: str
    drawn: bool

    @contextlib.contextmanager
    def __call__(self) -> Iterator[Callable[[tuple[dict[str, Any], float]], Ran]]:
        """What runs a plan, which comes as data, within so many seconds."""
        from harness.running.cache import CACHE_VARIABLE
        from harness.running.machine_files import on_machines
        from harness.search import subject_of
        from simulator.launch import forkserver

        os.environ[CACHE_VARIABLE] = self.cache
        forkserver().begin()
        subject = functools.cache(functools.partial(subject_of, self.program, self.case, **self.options))
        with on_machines(self.case):
            yield functools.partial(_run_data, subject, self.drawn)


def _run_data(subject: Callable[[], Subject], drawn: bool, asked: tuple[dict[str, Any], float]) -> Ran:
    from simulator import FaultPlan

    return run_plan(subject(), FaultPlan.from_mapping(asked[0]), asked[1], drawn=drawn)


def run_plan(subject: Subject, plan: FaultPlan, seconds: float, *, drawn: bool) -> Ran:
    """Run a plan, and draw the run if it failed; not the one whose step was watched afterwards."""
    from harness.report.timeline import read_timelines
    from simulator.machines.local.scratch import scratch

    if not drawn:
        return subject.run(plan, seconds=seconds), []
    with scratch("page") as kept:
        outcome = subject.run(plan, kept / "run", seconds)
        return outcome, read_timelines(kept / "run")[:1] if outcome.failed else []
