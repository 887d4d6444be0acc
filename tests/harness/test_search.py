"""The search itself, with programs that need no TensorFlow: a planted defect is found, shrunk and written down."""

from __future__ import annotations

import functools

import pytest

from harness.search import Acceptance, Outcome, Search, describe_plan
from harness.search.drawing import Space
from harness.search.judging import outcome_of_failure
from harness.search.profiles import choose_kinds, profile_of
from simulator import FaultPlan, RunFailed, RunResult, TaskError, Topology
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
    found = search.go().found
    assert found is not None
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


def _pretend(plan: FaultPlan) -> Outcome:
    """Fails when a task is killed after step 3 or later."""
    late = any(fault.kind == "kill" and int(fault.step or 0) >= 3 for fault in plan.faults)
    return Outcome(symptom="liveness" if late else None)


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
    assert first.found is not None
    assert first.found == second.found
    assert first.plans == second.plans


def test_another_symptom_is_another_defect() -> None:
    """While it is shrunk, a plan that fails in another way does not count as failing."""

    def run(plan: FaultPlan) -> Outcome:
        if {"kill", "pause"} <= {fault.kind for fault in plan.faults}:
            return Outcome(symptom="numbers")
        return Outcome(symptom="liveness" if search.hunt.suspect else None)

    search = Search(run, _space("kill", "pause"), 60.0)
    found = search.go().found
    assert found is not None
    assert sorted(fault.kind for fault in found.plan.faults) == ["kill", "pause"]


def test_a_failure_that_does_not_come_again_is_let_go() -> None:
    """With 2/3 a plan that fails once and then twice not is no result, and the search goes on."""
    runs: list[str] = []

    def run(plan: FaultPlan) -> Outcome:
        runs.append(plan.to_json())
        return Outcome(symptom="liveness" if len(runs) == 2 else None)

    search = Search(run, _space("kill", faults=1), 60.0, acceptance=Acceptance(2, 3))
    hunt = search.go()
    assert (hunt.found, hunt.suspect) == (None, None)
    assert runs.count(runs[1]) == 3
    assert hunt.plans == len(set(runs)) > 2


def test_the_budget_ends_the_search() -> None:
    """No plan is begun when it is spent."""
    hunt = Search(lambda _: Outcome(), _space("kill"), budget=0.0).go()
    assert (hunt.plans, hunt.found) == (0, None)


def test_what_was_done_is_known_after_an_interruption() -> None:
    """A plan that is being shrunk is kept as it was drawn."""

    def run(plan: FaultPlan) -> Outcome:
        if search.hunt.suspect is not None:
            raise KeyboardInterrupt
        return _pretend(plan)

    search = Search(run, _space("kill", "pause"), 60.0, seed=5)
    with pytest.raises(KeyboardInterrupt):
        search.go()
    assert search.hunt.suspect is not None
    assert search.hunt.outcome is not None
    assert _pretend(search.hunt.suspect).failed


def _failure(*causes: tuple[str, str]) -> RunFailed:
    errors = tuple(TaskError(task, kind, "said so", at=float(at)) for at, (task, kind) in enumerate(causes))
    return RunFailed(errors, RunResult({}, 1.0, None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "causes", "symptom", "void"),
    [
        ("kill", [("worker:0", "Hang")], "liveness", False),
        ("kill", [("worker:0", "NoProgress"), ("plan", "FaultNotFired")], "liveness", False),
        ("kill", [("worker:0", "ValueError")], "liveness", False),
        ("kill", [("plan", "FaultNotFired"), ("plan", "FaultWithoutEffect")], None, False),
        ("kill", [("plan", "FaultNotUndone")], None, True),
        ("kill", [("network", "RelayEnded")], None, True),
        ("torn_checkpoint", [("worker:0", "DataLossError")], None, False),
        ("torn_checkpoint", [("worker:0", "Hang")], "liveness", False),
    ],
)
def test_what_a_run_that_failed_says(kind: str, causes: list[tuple[str, str]], symptom: str | None, void: bool) -> None:
    """A program must get to its end, unless its checkpoint was damaged; a plan that could not be made is no failure."""
    keys = "directory=saved" if kind == "torn_checkpoint" else "task=worker:0"
    plan = FaultPlan(faults=(FaultPlan.parse_fault(f"kind={kind},{keys},step=1"),))
    found = outcome_of_failure(plan, _failure(*causes))
    assert (found.symptom, found.void is not None) == (symptom, void)
    assert bool(found) is (symptom is None and not void)


@pytest.mark.full
def test_a_program_that_never_gets_on_is_found() -> None:
    """A run that fails at each start uses up its restarts, and that is a failure of liveness."""
    broken = run_counting(FaultPlan.from_mapping(_KILL), mistake="crash")
    assert broken.symptom == "liveness"
    assert "restarts were allowed" in broken.text
    assert "cannot resume" in broken.text
    search = Search(functools.partial(run_counting, mistake="crash"), _space("kill", faults=1), 60.0)
    found = search.go().found
    assert found is not None
    assert describe_plan(found.plan) == "kill worker:0 step=1"


_KILL = {"fault": [{"kind": "kill", "task": "worker:0", "step": 2}]}
