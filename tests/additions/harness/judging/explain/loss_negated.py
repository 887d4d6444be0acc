"""Rule: the sign of the loss was turned over, as by maximising instead of minimising."""

from __future__ import annotations

from collections.abc import Iterator

from harness.judging.explain._prediction import Predicting, check, judged
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule


def _negated(view: CaseView) -> Iterator[Attempt | None]:
    checks = [check(view, "loss", step, "loss", -view.truth("loss", step, "loss")) for step in view.steps("loss")[:1]]
    yield judged("loss_negated", "The loss is minus the reference's.", checks)


RULES: tuple[Rule, ...] = (Predicting("loss_negated", 45, _negated),)
