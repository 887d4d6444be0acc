"""Trainings by a coordinator, each closure a step of a worker: what meets elsewhere, is drawn, and is not joined."""

from __future__ import annotations

import pytest

from harness import verify
from tests.harness._coordinated import asynchronous, evaluating


@pytest.mark.full
@pytest.mark.parametrize(
    ("mistake", "broken"),
    [
        ("", set()),
        ("twice", {"variables_match_reference"}),
        ("unjoined", {"updates_counted"}),
    ],
)
def test_a_training_whose_updates_meet_is_judged(mistake: str, broken: set[str]) -> None:
    """With several workers, an optimizer with slots, dropout and an order of examples of each worker's own."""
    verdict = verify(asynchronous(mistake), "parameter_server-2w1p", prove=False, explain=False)
    assert {law.law for law in verdict.judgements if law.status == "broken"} == broken, str(verdict)
    assert verdict.abstained is None
    assert {law.law: law.status for law in verdict.judgements}["begins_alike"] == "held"
    assert any(condition.code == "own_shares" for condition in verdict.conditions)


@pytest.mark.full
def test_what_closures_read_outside_of_replicas_accuses_nobody() -> None:
    """Nothing of it is evidence, so that one device has examples and draws of its own."""
    verdict = verify(asynchronous("outside"), "parameter_server-2w1p", prove=False, explain=False)
    assert verdict.outcome == "abstained"
    assert "Call strategy.run" in str(verdict)


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("counted", "held"),
        pytest.param("lost", "broken", marks=pytest.mark.full),
        pytest.param("open", "broken", marks=pytest.mark.full),
        pytest.param("here", None, marks=pytest.mark.full),  # not judged
    ],
)
def test_closures_that_evaluate_are_no_updates(how: str, status: str | None) -> None:
    """They read what is trained and what counts updates, and write a metric; one that is lost, or open, is found."""
    verdict = verify(evaluating(how), "parameter_server-2w1p", prove=False, explain=how == "open")
    assert {law.law: law.status for law in verdict.judgements}.get("updates_counted") == status
    assert (verdict.outcome == "inconsistent") is (how in ("lost", "open")), str(verdict)
    if how == "open":
        assert verdict.culprit is not None
        assert verdict.culprit.source == "coordinator.schedule(evaluation, args=())"
