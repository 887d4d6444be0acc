"""Rule: each worker began with variables of its own, which nobody had made the same."""

from __future__ import annotations

from collections.abc import Iterable

from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._view import CaseView
from harness.judging.explain._workers import begun_apart, numbers_begun_apart
from harness.judging.explain.protocol import Attempt, Rule

BEGUN_APART = "not_broadcast"
_CURE = (
    "Make variables in strategy.scope(), which gives all workers those of the first, or set all to what one worker has "
    "before the first step."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    if not view.case.begin and not numbers_begun_apart(view) and (said := begun_apart(view)) is not None:
        yield evident(BEGUN_APART, f"{said}: each worker has made its own.")


RULES: tuple[Rule, ...] = (Predicting(BEGUN_APART, 24, _attempts, cure=_CURE),)
