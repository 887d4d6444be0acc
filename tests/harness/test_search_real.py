"""Searching real trainings: what they lose when they are killed is found, and nothing is where they lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.search import Search, describe_plan, subject_of, survives
from harness.search.drawing import Space
from harness.search.profiles import choose_kinds, profile_of
from simulator import FaultPlan
from simulator.faults import Restart

RESUMABLE = str(Path(__file__).parents[2] / "examples" / "resumable.py")


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
    # Step 2 is reported before it is saved; a kill right then costs two steps and loses no slots.
    assert describe_plan(found.plan) == "kill local:0 step=3"
    assert found.outcome.symptom == "numbers"
    assert "explanation: slots_not_restored" in found.outcome.text


@pytest.mark.full  # docs/search.md searches in a real training
def test_nothing_is_found_in_a_training_that_resumes() -> None:
    """With deaths of several kinds, and faults that cost only time."""
    hunt = _search("train", "kill", "crash", "preempt", "slow", budget=4.0, faults=2, seed=4).go()
    assert hunt.plans > 0
    assert hunt.found is None, str(hunt.found)
    assert hunt.voids == 0


@pytest.mark.full  # in the quick profile scenarios/test_faults.py starts a worker again
def test_workers_that_are_started_again_one_by_one() -> None:
    """Each time the other worker fails and the job begins again, so that their incarnations count differently."""
    faults = [Restart("worker:1", step=step) for step in (3, 2)]
    outcome = survives(f"{RESUMABLE}:train", "multi_worker-2", FaultPlan(faults=tuple(faults)), timeout=90.0)
    assert outcome, str(outcome)
    assert outcome.restarts >= 2
    assert outcome.unfired == ()
