"""Searching real trainings: what they lose when they are killed is found, and nothing is where they lose nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.running.machine_files import on_machines
from harness.search import Search, describe_plan, subject_of, survives
from harness.search.plan_strategy import Space, drawn_plans
from harness.search.profiles import choose_kinds, profile_of
from harness.search.venue import room_of
from simulator import FaultPlan
from simulator.faults import Restart
from tests.harness._called import called

ROOT = Path(__file__).parents[2]
RESUMABLE = str(ROOT / "examples" / "resumable.py")


def _search(function: str, *kinds: str, budget: float, faults: int, seed: int = 0) -> Search:
    subject = subject_of(f"{RESUMABLE}:{function}", "mirrored-2", timeout=60.0)
    topology = subject.case.topology
    space = Space(topology, subject.steps, choose_kinds(kinds, topology), profile_of("swarm"), faults_max=faults)
    return Search(subject.run, space, budget, seed)


@pytest.mark.full  # under `default` docs/search.md runs the same search and shows the same find
def test_an_optimizer_that_is_not_saved_is_found() -> None:
    """One kill after the first save is left of the plan, and the rule for lost slots explains the numbers."""
    found = _search("train_wrong", "kill", budget=120.0, faults=1).go().found
    assert found is not None
    # A kill before the first save begins again at step 1, and loses no slots.
    assert describe_plan(found.plan) == "kill local:0 at=save:done"
    assert found.outcome.symptom == "numbers"
    assert found.outcome.text.startswith("error[slots_not_restored]")


@pytest.mark.full  # docs/search.md searches in a real training
def test_nothing_is_found_in_a_training_that_resumes() -> None:
    """With deaths of several kinds, and faults that cost only time."""
    hunt = _search("train", "kill", "crash", "preempt", "slow", budget=4.0, faults=2, seed=4).go()
    assert hunt.plans > 0
    assert hunt.found is None, str(hunt.found)
    assert hunt.voids == 0


@pytest.mark.full
def test_machines_are_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """As drawn over three machines, which are all there again for the next plan: what is lost with one is found."""
    monkeypatch.chdir(ROOT)
    over: dict[str, Any] = {"machines": "env MACHINE={}:m0,m1,m2", "timeout": 120.0}
    subject = subject_of(f"{RESUMABLE}:train_wrong", "multi_worker-2", **over)
    topology, room = subject.case.topology, room_of(subject.case, None)
    kinds = choose_kinds(["machine_lost"], topology, room)
    space = Space(topology, subject.steps, kinds, profile_of("swarm"), faults_max=1, room=room)
    # From the second step on there is something to resume from, which lacks the optimizer.
    plan = next(
        plan for plan in drawn_plans(space, 0) if plan.faults[0].trigger == "step" and int(plan.faults[0].step or 0) > 2
    )
    with on_machines(subject.case):
        outcomes = [subject.run(FaultPlan()), subject.run(plan)]
    assert [outcome.symptom for outcome in outcomes] == [None, "numbers"], [str(each) for each in outcomes]
    right = survives(f"{RESUMABLE}:train", "multi_worker-2", plan, **over)
    assert right, str(right)
    assert (right.restarts, right.unfired) == (1, ())


@pytest.mark.full
def test_two_runs_at_once_lose_each_its_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On the same machines, by processes of their own: neither run ends for what the other has lost."""
    monkeypatch.chdir(ROOT)
    over = ("--strategy", "multi_worker-2", "--machines", "env MACHINE={}:m0,m1", "--kinds", "machine_lost")
    told = ("--jobs", "2", "--plans", "2", "--faults", "1", "--budget", "9m", "--out", tmp_path, "--json")
    done = called("search", "examples/resumable.py:train", *over, *told)
    found = json.loads(done.stdout)
    assert (found["plans"], found["runs"], found["tried"], found["symptom"]) == (2, 2, 2, None), done.stderr


@pytest.mark.full  # in the quick profile scenarios/test_faults.py starts a worker again
def test_workers_that_are_started_again_one_by_one() -> None:
    """Each time the other worker fails and the job begins again, so that their incarnations count differently."""
    faults = [Restart("worker:1", step=step) for step in (3, 2)]
    outcome = survives(f"{RESUMABLE}:train", "multi_worker-2", FaultPlan(faults=tuple(faults)), timeout=90.0)
    assert outcome, str(outcome)
    assert outcome.restarts >= 2
    assert outcome.unfired == ()
