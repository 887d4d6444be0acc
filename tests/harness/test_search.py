"""The search itself, with programs that need no TensorFlow: a planted defect is found, shrunk and written down."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from harness.attempts import JudgedAttempt
from harness.report.timeline import timeline_of
from harness.request import VerifyRequest
from harness.search import Acceptance, FailingPlan, PlanOutcome, Search, describe_plan
from harness.search.plan_strategy import Space, draw_plans
from harness.search.profiles import choose_kinds, profile_of
from harness.search.trial import Subject, outcome_of_failure
from harness.subject.program import Program
from harness.subject.strategies import strategy_case
from simulator import FaultPlan, RunFailed, RunResult, TaskError, Topology
from simulator.results import PlannedFault
from tests._present import present
from tests.harness._journals import Script
from tests.harness._searched import STEPS, run_counting

ALONE = Topology(worker=1)


def _space(*kinds: str, faults: int = 3) -> Space:
    return Space(ALONE, STEPS, choose_kinds(kinds, ALONE), profile_of("swarm"), chaos="10s", faults_max=faults)


def _kinds_in_time(plan: FaultPlan) -> list[str]:
    return [fault.kind for fault in sorted(plan.faults, key=lambda fault: int(fault.step or 0))]


@pytest.mark.full
def test_a_defect_that_needs_two_faults_in_order_is_found_and_shrunk_to_them() -> None:
    """Real processes: a preemption at the first step, progress, and then one death of another kind; in this order."""
    search = Search(run_counting, _space("kill", "preempt", "slow"), budget=120.0, seed=4)
    found = present(search.go().found)
    assert len(found.plan.faults) == 2, describe_plan(found.plan)
    assert _kinds_in_time(found.plan)[0] == "preempt"
    assert found.outcome.symptom == "numbers"
    # What is left is needed: neither fault alone does it, nor do both in the other order.
    for one in found.plan.faults:
        assert run_counting(FaultPlan(faults=(one,)))
    other = ("kind=kill,task=worker:0,step=1", "kind=preempt,task=worker:0,step=2,grace=1s")
    assert run_counting(FaultPlan(faults=tuple(map(FaultPlan.parse_fault, other))))


@pytest.mark.full
def test_the_same_program_without_the_defect_survives() -> None:
    """The plan to which the search above shrinks what it finds does no harm then."""
    faults = ("kind=preempt,task=worker:0,step=1,grace=1s", "kind=kill,task=worker:0,step=2")
    plan = FaultPlan(faults=tuple(map(FaultPlan.parse_fault, faults)))
    assert run_counting(plan).symptom == "numbers"
    right = run_counting(plan, mistake="")
    assert right, str(right)
    assert (right.restarts, right.unfired) == (2, ())


def _pretend(plan: FaultPlan) -> PlanOutcome:
    """Fails when a task is killed after step 3 or later."""
    late = any(fault.kind == "kill" and int(fault.step or 0) >= 3 for fault in plan.faults)
    return PlanOutcome(symptom="liveness" if late else None)


def test_the_smallest_failing_plan_is_the_result() -> None:
    """One fault at the first step that matters; the drawn plan is kept beside it, and every run was announced."""
    said: list[tuple[str, int]] = []
    space = _space("kill", "pause", "crash")
    search = Search(_pretend, space, 60.0, seed=5, listener=lambda why, number, *_: said.append((why, number)))
    hunt = search.go()
    assert hunt.found is not None
    assert describe_plan(hunt.found.plan) == "kill worker:0 step=3"
    assert _pretend(hunt.found.drawn).failed
    assert (hunt.found.failed, hunt.found.runs) == (1, 1)
    assert [entry for entry in said if entry[0] == "plan"] == [("plan", number + 1) for number in range(hunt.plans)]
    assert hunt.runs == len(said)


def test_the_same_seed_finds_the_same_plan() -> None:
    """Drawn and shrunk alike, after as many plans."""
    first, second = (Search(_pretend, _space("kill", "pause"), 60.0, seed=8).go() for _ in range(2))
    assert present(first.found) == second.found
    assert first.plans == second.plans


def test_another_symptom_is_another_defect() -> None:
    """While it is shrunk, a plan that fails in another way does not count as failing."""

    def run(plan: FaultPlan) -> PlanOutcome:
        if {"kill", "pause"} <= {fault.kind for fault in plan.faults}:
            return PlanOutcome(symptom="numbers")
        return PlanOutcome(symptom="liveness" if search.hunt.suspect else None)

    search = Search(run, _space("kill", "pause"), 60.0)
    found = present(search.go().found)
    assert sorted(fault.kind for fault in found.plan.faults) == ["kill", "pause"]


def test_an_endless_search_finds_each_mistake_once() -> None:
    """It goes on after a plan that fails, leaves out what fails in the same way, and hands over each at once."""
    codes = {"kill": "restarted_from_scratch", "pause": "slots_not_restored"}
    finds: list[FailingPlan] = []

    def run(plan: FaultPlan) -> PlanOutcome:
        failing = [fault.kind for fault in plan.faults if int(fault.step or 0) >= 3]
        return PlanOutcome(symptom="numbers", code=codes[failing[0]]) if failing else PlanOutcome()

    search = Search(run, _space("kill", "pause"), 60.0, plans=40, endless=True, keep=finds.append)
    hunt = search.go()
    assert hunt.finds == finds
    assert {find.outcome.code for find in finds} == set(codes.values())
    assert len(finds) == 2
    assert hunt.found == finds[0]
    assert hunt.plans == 40
    assert hunt.repeats > 2
    once = Search(run, _space("kill", "pause"), 60.0, plans=40).go()
    assert (len(once.finds), once.repeats) == (1, 0)


def test_a_search_without_an_end_ends_with_its_plans() -> None:
    """An infinite budget leaves its runs all the time there is, and says how long it took."""
    left: list[float] = []

    def run(_: FaultPlan) -> PlanOutcome:
        left.append(search.seconds_of_run)
        return PlanOutcome()

    search = Search(run, _space("kill", "pause"), math.inf, plans=3, endless=True)
    hunt = search.go()
    assert (hunt.plans, left) == (3, [math.inf] * 3)
    assert 0 < hunt.seconds < 60


def test_a_failure_that_does_not_come_again_is_let_go() -> None:
    """With 2/3 a plan that fails once and then twice not is no result, and the search goes on."""
    runs: list[str] = []

    def run(plan: FaultPlan) -> PlanOutcome:
        runs.append(plan.to_json())
        return PlanOutcome(symptom="liveness" if len(runs) == 2 else None)

    search = Search(run, _space("kill", faults=1), 60.0, acceptance=Acceptance(2, 3))
    hunt = search.go()
    assert (hunt.found, hunt.suspect) == (None, None)
    assert runs.count(runs[1]) == 3
    assert hunt.plans == len(set(runs)) > 2


def test_the_budget_ends_the_search() -> None:
    """No plan is begun when it is spent."""
    hunt = Search(lambda _: PlanOutcome(), _space("kill"), budget=0.0).go()
    assert (hunt.plans, hunt.found) == (0, None)


def test_what_was_done_is_known_after_an_interruption() -> None:
    """A plan that is being shrunk is kept as it was drawn."""

    def run(plan: FaultPlan) -> PlanOutcome:
        if search.hunt.suspect is not None:
            raise KeyboardInterrupt
        return _pretend(plan)

    search = Search(run, _space("kill", "pause"), 60.0, seed=5)
    with pytest.raises(KeyboardInterrupt):
        search.go()
    assert search.hunt.suspect is not None
    assert search.hunt.outcome is not None
    assert _pretend(search.hunt.suspect).failed


def _failure(*causes: tuple[str, str], struck: str = "") -> RunFailed:
    errors = tuple(TaskError(task, kind, "said so", at=float(at)) for at, (task, kind) in enumerate(causes))
    faults = (PlannedFault("one", struck or "torn_checkpoint", "worker:0", "step=1", fired=bool(struck)),)
    return RunFailed(errors, RunResult({}, 1.0, None, faults=faults))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("struck", "causes", "symptom", "void"),
    [
        ("kill", [("worker:0", "Hang")], "liveness", False),
        ("kill", [("worker:0", "NoProgress"), ("plan", "FaultNotFired")], "liveness", False),
        ("kill", [("worker:0", "ValueError")], "liveness", False),
        ("", [("plan", "FaultNotFired"), ("plan", "FaultWithoutEffect")], None, False),
        ("kill", [("plan", "FaultNotUndone")], None, True),
        ("kill", [("network", "RelayEnded")], None, True),
        ("torn_checkpoint", [("worker:0", "DataLossError")], None, False),
        ("torn_checkpoint", [("worker:0", "Hang")], "liveness", False),
        ("", [("worker:0", "DataLossError"), ("plan", "FaultNotFired")], "liveness", False),
    ],
)
def test_what_a_run_that_failed_says(
    struck: str, causes: list[tuple[str, str]], symptom: str | None, void: bool
) -> None:
    """A program must get to its end, unless its checkpoint was damaged; a plan that could not be made is no failure.

    A damage that was planned and never came excuses nothing.
    """
    found = outcome_of_failure(_failure(*causes, struck=struck))
    assert (found.symptom, found.void is not None) == (symptom, void)
    assert bool(found) is (symptom is None and not void)


def _trains(strategy: Any, record: Any) -> None:
    """Nobody calls it."""


def _subject() -> Subject:
    asked = VerifyRequest(
        "derived", forced=False, explain=None, prove=None, seed=1, timeout=60.0, stream=False, keep=False
    )
    return Subject(Program.of(_trains), strategy_case("multi_worker-2"), None, asked)  # type: ignore[arg-type]


def test_who_has_no_time_is_not_found_to_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that the end of the search cuts off says nothing; one that had all of its time does."""

    def hangs(attempt: JudgedAttempt) -> RunResult:
        raise _failure(("worker:0", "Hang"), struck="kill")

    monkeypatch.setattr(JudgedAttempt, "run", hangs)
    subject, plan = _subject(), FaultPlan.from_mapping(_KILL)
    assert subject.run(plan, seconds=5.0).void == "the time for the search was spent before this run was done"
    assert subject.run(plan, seconds=100.0).symptom == "liveness"
    assert subject.run(plan).symptom == "liveness"
    assert subject.run(plan).struck == (True,)


def test_who_is_judged_when_the_time_is_over_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the following of the run nor its run without a fault begins then, or may take longer than is left."""
    given: list[float] = []

    def following(attempt: JudgedAttempt, tasks: Any) -> Any:
        given.append(attempt.asked.timeout)
        raise _failure(("worker:0", "Hang"), struck="kill")

    monkeypatch.setattr(JudgedAttempt, "judged", lambda *_, **__: None)
    monkeypatch.setattr(JudgedAttempt, "by_one_replica", following)
    subject = _subject()
    attempt = JudgedAttempt(subject.program, subject.case, None, Path(), subject.asked, 0.0)
    spent = "the time for the search was spent before this run was judged"
    for seconds in (-1.0, 30.0):
        assert subject._judged(attempt, {}, time.monotonic() + seconds).void == spent
    with pytest.raises(RunFailed):
        subject._judged(attempt, {}, None)
    assert [round(each) for each in given] == [30, 60]


def test_whether_a_run_was_slow_is_not_asked_when_the_time_is_over() -> None:
    """Its run without a fault would take longer."""
    slow = timeline_of(Script("worker:0").steps("worker:0", [1.0, 90.0]).events, [])
    found = _subject()._in_time(PlanOutcome(), slow, FaultPlan(), time.monotonic() - 1.0)
    assert found.void == "the time for the search was spent before it was known whether it was slow"


def test_the_plainest_kind_that_fails_alike_is_the_result() -> None:
    """Whatever ends a task may be a kill."""

    def run(plan: FaultPlan) -> PlanOutcome:
        ends = any(fault.plainest == "kill" and int(fault.step or 0) >= 2 for fault in plan.faults)
        return PlanOutcome(symptom="liveness" if ends else None)

    found = present(Search(run, _space("oom", "restart", "crash_loop", "preempt"), 60.0).go().found)
    assert found.drawn.faults[0].kind != "kill"
    assert describe_plan(found.plan) == "kill worker:0 step=2"


_SEVERAL = {"kill": 1, "pause": 2}


def _kinds(plan: FaultPlan) -> Counter[str]:
    return Counter(fault.kind for fault in plan.faults)


def test_faults_that_have_not_struck_are_left_out_first() -> None:
    """They need not be tried one after the other; if the plan does not fail without them, they stay."""
    tried: list[int] = []

    def run(plan: FaultPlan) -> PlanOutcome:
        tried.append(len(plan.faults))
        kills = [fault.kind == "kill" for fault in plan.faults]
        struck = tuple(kill and not any(kills[:number]) for number, kill in enumerate(kills))
        return PlanOutcome(
            "numbers" if any(kills) else None, unfired=("so",) * (len(kills) - sum(struck)), struck=struck
        )

    several = next(plan for plan in draw_plans(_space("kill", "pause", faults=4), 2, 100) if _kinds(plan) == _SEVERAL)
    with mock.patch("harness.search.search.drawn_plans", return_value=[several]):
        found = Search(run, _space("kill", "pause"), 60.0).go().found
    assert found is not None
    assert tried[:2] == [3, 1]
    assert describe_plan(found.plan) == "kill worker:0 step=1"


def test_what_there_was_no_time_to_shrink_is_said_to_be_so() -> None:
    """A plan that failed when the budget ended is a result, and not the smallest one."""

    def run(plan: FaultPlan) -> PlanOutcome:
        if _pretend(plan).failed:
            search.budget = 0.0
        return _pretend(plan)

    search = Search(run, _space("kill", "pause"), 60.0, seed=5, acceptance=Acceptance(2, 3))
    found = present(search.go().found)
    assert (found.plan, found.failed, found.runs, found.whole) == (found.drawn, 1, 1, False)
    assert Search(_pretend, _space("kill", "pause"), 60.0, seed=5).go().found.whole  # type: ignore[union-attr]


def test_no_more_plans_are_drawn_than_were_asked_for() -> None:
    """However much time there is."""
    hunt = Search(lambda _: PlanOutcome(), _space("kill", "pause"), 60.0, plans=7).go()
    assert (hunt.plans, hunt.runs) == (7, 7)


def test_who_has_no_peers_is_not_paused() -> None:
    """It would not notice; where it is asked for, it is done."""
    alone, two = choose_kinds((), ALONE), choose_kinds((), Topology(worker=2))
    assert {"pause", "slow"} <= set(two)
    assert not {"pause", "slow"} & set(alone)
    assert choose_kinds(("pause",), ALONE) == ("pause",)


def test_late_saves_are_struck_too() -> None:
    """Of a program of ten steps also the fifth save and those after it."""
    space = dataclasses.replace(_space("kill"), steps=10)
    times = {int(fault.nth) for plan in draw_plans(space, 3, 400) for fault in plan.faults if fault.phase}
    assert {1, 2, 3, 5, 9} <= times
    assert max(times) <= 10


@pytest.mark.full
def test_a_program_that_never_gets_on_is_found() -> None:
    """A run that fails at each start uses up its restarts, and that is a failure of liveness."""
    broken = run_counting(FaultPlan.from_mapping(_KILL), mistake="crash")
    assert broken.symptom == "liveness"
    assert "restarts were allowed" in broken.text
    assert "cannot resume" in broken.text
    search = Search(functools.partial(run_counting, mistake="crash"), _space("kill", faults=1), 60.0)
    found = present(search.go().found)
    assert describe_plan(found.plan) == "kill worker:0 step=1"


_KILL = {"fault": [{"kind": "kill", "task": "worker:0", "step": 2}]}
