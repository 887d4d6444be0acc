"""What each replica makes of its gradients before their mean is taken is told as that, and at its line."""

from __future__ import annotations

import pytest

from harness import verify
from tests.harness._changed_gradients import CHANGES, changed_gradients


@pytest.mark.parametrize(
    "change", [pytest.param(each, marks=[pytest.mark.full] * (each != "signs")) for each in CHANGES]
)
def test_a_gradient_that_is_changed_before_its_mean_is_named(change: str) -> None:
    """The loss of each replica is a mean, and is rightly so; no gradient was left out."""
    verdict = verify(changed_gradients(change), "mirrored-2", prove=False, explain=change != "nothing")
    if change == "nothing":
        assert verdict, str(verdict)
        return
    assert verdict.outcome == "inconsistent"
    rule = None if verdict.explanation is None else verdict.explanation.rule
    assert rule == ("clipped_before_reduce" if change == "norm" else None)
    assert verdict.culprit is not None, str(verdict)
    if change == "hardest":
        assert verdict.culprit.kind == "extreme_of_own_examples", verdict.culprit
        assert verdict.culprit.source.startswith("loss = "), verdict.culprit
        return
    assert verdict.culprit.kind == "computed_before_the_sum", verdict.culprit
    assert change == "norm" or verdict.culprit.source.startswith(f'"{change}": lambda'), verdict.culprit
