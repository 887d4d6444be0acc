"""Rule: each worker began with variables of its own, which nobody had made the same."""

from __future__ import annotations

from collections.abc import Iterable

from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._view import CaseView
from harness.judging.explain._workers import apart
from harness.judging.explain.protocol import Attempt, Rule

BEGUN_APART = "not_broadcast"
_CURE = (
    "Make variables in strategy.scope(), which gives all workers those of the first, or set all to what one worker has "
    "before the first step."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    steps = view.steps("variables")
    drifted = view.drifted(steps[0]) if steps else []
    begun = {name: values for name, values in view.begun_apart.items() if name in drifted}
    if begun:
        name, values = next(iter(begun.items()))
        more = f"; so do {len(begun) - 1} other variables differ" if len(begun) > 1 else ""
        yield evident(
            BEGUN_APART,
            f"Before step {view.case.begin + 1} {apart(view, name, values)}{more}: each worker has "
            f"{'what it restored, or made, by itself' if view.case.begin else 'made its own'}.",
        )


RULES: tuple[Rule, ...] = (Predicting(BEGUN_APART, 24, _attempts, cure=_CURE),)
