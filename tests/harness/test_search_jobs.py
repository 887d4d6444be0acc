"""Several plans at once: the same plans whichever run ends first, and nothing left of a search that was ended."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from harness.cli._search_runs import check_jobs
from harness.running.crew import ProcessLost, crew_of
from harness.search import Acceptance, PlanOutcome, Search, describe_plan
from harness.search.plan_strategy import Space
from harness.search.profiles import profile_of
from harness.search.situations import Point, RunSituations
from harness.subject.strategies import strategy_case
from simulator import FaultPlan, LockstepError, Topology, UsageError
from simulator.machines.far.checks import MachinesUnavailable
from tests._ended import living
from tests.harness._counting import train

__all__ = ["train"]

ROOT = Path(__file__).parents[2]
LOCKSTEP = (sys.executable, "-c", "from _lockstep.command import main; main()")
POINTS = tuple(Point("local:0", 0, f"step:{step}") for step in range(1, 9))


class _Recorded:
    """Runs nothing, and notes which plans were begun and waited for, in which order."""

    def __init__(self, jobs: int, failing: str = "none") -> None:
        self.begun: list[str] = []
        self.waited = 0
        self.most = 0
        self.failing = failing
        space = Space(Topology(), 8, ("kill", "pause"), profile_of("situations"), faults_max=1)
        begin = None if jobs == 1 else self.begin
        self.search = Search(self.run, space, 60.0, 3, 20, POINTS, acceptance=Acceptance(2, 3), jobs=jobs, begin=begin)

    def run(self, plan: FaultPlan) -> PlanOutcome:
        return self.begin(plan)()

    def begin(self, plan: FaultPlan) -> Callable[[], PlanOutcome]:
        self.begun.append(describe_plan(plan))
        self.most = max(self.most, len(self.begun) - self.waited)

        def wait() -> PlanOutcome:
            self.waited += 1
            # Kills never come, so that each is tried twice: a plan is taken for another if outcomes are mixed up.
            shown = RunSituations(met=(None,) if "kill" in describe_plan(plan) else (POINTS[0],))
            return PlanOutcome("numbers" if self.failing in describe_plan(plan) else None, shown=shown)

        return wait


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_as_many_runs_as_jobs_and_the_same_plans_again(jobs: int) -> None:
    """Never more runs than jobs are under way; the plans are the same the next time, and all are counted."""
    first, second = _Recorded(jobs), _Recorded(jobs)
    hunt = first.search.go()
    second.search.go()
    assert first.begun == second.begun
    assert (first.most, hunt.plans, hunt.runs, first.waited) == (jobs, 20, 20, 20)


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_a_failing_plan_ends_the_search_when_all_that_was_begun_has_ended(jobs: int) -> None:
    """What was under way counts; nothing else runs beside the shrinking, and the least plan is the same."""
    recorded = _Recorded(jobs, failing="pause")
    hunt = recorded.search.go()
    assert hunt.found is not None
    assert "pause" in describe_plan(hunt.found.plan)
    assert recorded.waited == len(recorded.begun) == hunt.runs
    assert recorded.most == jobs
    assert (hunt.found.failed, hunt.found.runs) == (2, 2)


def test_runs_that_share_gpus_are_made_one_after_the_other() -> None:
    """Which is said before anything starts."""
    check_jobs(3, strategy_case("multi_worker-2"))
    check_jobs(1, strategy_case("mirrored-2", "gpu-simulated"))
    with pytest.raises(UsageError, match="one after the other"):
        check_jobs(2, strategy_case("mirrored-2", "gpu-simulated"))


@contextlib.contextmanager
def _echo(folder: Path) -> Iterator[Callable[[str], str]]:
    def told(asked: str) -> str:
        if asked == "fail":
            raise UsageError("no such thing")
        return f"{asked} by {os.getpid()}"

    with TemporaryDirectory(dir=folder):
        yield told


def _nothing() -> contextlib.AbstractContextManager[Callable[[str], str]]:
    raise MachinesUnavailable("m0 is away")


def test_a_crew_does_what_it_is_asked_and_has_ended_then(tmp_path: Path) -> None:
    """Each in a process of its own, which leaves its context; an error is raised where the answer is waited for."""
    with crew_of(2, functools.partial(_echo, tmp_path)) as crew:
        begun = [crew.begin(asked) for asked in ("a", "b")]
        told = [each.wait() for each in begun]
        assert [each[0] for each in told] == ["a", "b"]
        processes = [psutil.Process(int(each.split()[-1])) for each in told]
        assert processes[0] != processes[1]
        with pytest.raises(UsageError, match="no such thing"):
            crew.begin("fail").wait()
        assert crew.begin("again").wait().startswith("again by ")
        assert len(list(tmp_path.iterdir())) == 2
        os.kill(processes[0].pid, signal.SIGKILL)
        assert not living(processes[:1])
        with pytest.raises(ProcessLost):
            [each.wait() for each in [crew.begin("a"), crew.begin("b")]]
    assert not living(processes)
    assert len(list(tmp_path.iterdir())) == 1  # of the one that was killed


def test_a_crew_that_cannot_begin_says_why() -> None:
    """Not in a traceback of a process, but where an answer is waited for."""
    with crew_of(1, _nothing) as crew, pytest.raises(LockstepError, match="m0 is away"):
        crew.begin("a").wait()


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_search_that_is_ended(number: signal.Signals, train: str, tmp_path: Path) -> None:
    """In the middle of two runs: processes and files are gone, and what was found is printed where that can be."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    options = ("--strategy", "default", "--exact", "--jobs", "2", "--out", str(tmp_path / "found"))
    started = subprocess.Popen(
        [*LOCKSTEP, "search", f"{train}:train", *options],
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stderr is not None
    try:
        assert len(list(itertools.islice(started.stderr, 3))) == 3
        family = psutil.Process(started.pid).children(recursive=True)
        assert len(family) >= 4  # two processes, and what they have started
    finally:
        started.send_signal(number)
        out, _ = started.communicate(timeout=60)
    assert not living(family)
    assert not list(scratch.iterdir())
    assert ("no failing plan in " in out) == (number != signal.SIGKILL)
