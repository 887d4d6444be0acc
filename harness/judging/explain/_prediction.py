"""How a rule's prediction is held against the observed numbers, and what a rule made of predictions is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from harness.evidence.comparing import ratios
from harness.judging.explain._view import CaseView, Floats, view_of
from harness.judging.explain.protocol import Attempt, Case, Explanation
from harness.judging.tolerance import eps

_Model = Callable[[CaseView], "Iterable[Attempt | None]"]

_ROUNDINGS = 16.0
"""Roundings by which a prediction may differ from what the program computed, relative to the largest number in it.

A prediction is put together in float64 from recorded values, each rounded to the program's dtype by the handful of
operations that `harness.judging.tolerance.FLOOR` counts; two such values take part, the run's and the reference's.
"""

_APART = 2.0
"""A prediction proves something only if it is further from the reference than twice what it may be off by itself."""


@dataclass(frozen=True)
class Check:
    """One predicted value: `observed` should be `predicted`, and is not `reference`.

    `bound` is the tolerance's for each element, already multiplied by whatever the prediction multiplies its inputs by;
    `size` is the largest number that takes part, if larger than the three values.
    """

    observed: Floats
    predicted: Floats
    reference: Floats
    bound: Floats
    dtype: str = "float32"
    size: float = 0.0


def check(view: CaseView, observable: str, step: int | None, name: str, predicted: Floats, gain: float = 1.0) -> Check:
    """The prediction of one value; `gain` is what the prediction multiplies its inputs, and so their bounds, by."""
    return Check(
        view.value(observable, step, name),
        predicted,
        view.truth(observable, step, name),
        gain * view.bound(observable, name, step),
        view.run[observable][step][name].dtype,
    )


def undone(view: CaseView, observable: str, step: int | None, name: str, restored: Floats, gain: float = 1.0) -> Check:
    """The same with the roles changed: undoing the mistake should restore the reference's value from the run's."""
    forward = check(view, observable, step, name, restored, gain)
    return replace(forward, observed=forward.reference, reference=forward.observed)


def judged(rule: str, text: str, checks: Iterable[Check]) -> Attempt | None:
    """The attempt to explain values by a prediction; None where the prediction is the reference itself."""
    worst = unexplained = 0.0
    visible = False
    for check in checks:
        size = max(check.size, *(_norm(x) for x in (check.observed, check.predicted, check.reference)))
        allowed = check.bound + _ROUNDINGS * eps(check.dtype) * size
        error, gap = _distance(check.observed, check.predicted), _distance(check.observed, check.reference)
        worst = max(worst, _times(check.observed, check.predicted, allowed))
        unexplained = max(unexplained, 0.0 if error == 0 else error / gap if 0 < gap < math.inf else math.inf)
        visible |= _times(check.predicted, check.reference, allowed) > _APART
    return Attempt(rule, text, worst, unexplained) if visible else None


def evident(rule: str, text: str, cause: str | None = None, cure: str | None = None) -> Attempt:
    """An attempt that is not a prediction: the evidence itself is the claim, and the text has to say so."""
    return Attempt(rule, text, 0.0, 0.0, cause, cure)


@dataclass(frozen=True)
class Predicting:
    """A rule that makes attempts; the first one within its bound is the explanation.

    `evidence` is what it can still say where nothing is recorded that a prediction could be held against. `cure` is of
    all attempts that have none of their own.
    """

    id: str
    priority: int
    model: _Model
    evidence: _Model | None = None
    cure: str = ""

    def attempts(self, case: Case) -> Iterable[Attempt]:
        """What the rule predicts for this case, and how far off that is."""
        return _made(self.model, case)

    def explain(self, case: Case) -> Explanation | None:
        """The first attempt that reproduces what was observed."""
        return self._first(self.model, case)

    def suspect(self, case: Case) -> Explanation | None:
        """What circumstantial evidence says."""
        return None if self.evidence is None else self._first(self.evidence, case)

    def _first(self, model: _Model, case: Case) -> Explanation | None:
        made = next((each for each in _made(model, case) if each.ratio <= 1), None)
        if made is None:
            return None
        return Explanation(self.id, made.text, self.cure if made.cure is None else made.cure, made.cause)


def _made(model: _Model, case: Case) -> list[Attempt]:
    import numpy as np

    view = view_of(case)
    if model not in view.attempts:
        # A run with Inf and NaN is a case like any other; no prediction is equal to what they lead to.
        with np.errstate(all="ignore"):
            view.attempts[model] = [attempt for attempt in model(view) if attempt is not None]
    return view.attempts[model]


def _times(a: Floats, b: Floats, allowed: Floats) -> float:
    """The largest difference of an element as a multiple of what is allowed for it."""
    import numpy as np

    if a.shape != b.shape or np.broadcast_shapes(a.shape, allowed.shape) != a.shape:
        return math.inf
    return float(np.max(ratios(_apart(a, b), np.broadcast_to(allowed, a.shape)), initial=0.0))


def _distance(a: Floats, b: Floats) -> float:
    import numpy as np

    return math.inf if a.shape != b.shape else float(np.max(_apart(a, b), initial=0.0))


def _apart(a: Floats, b: Floats) -> Floats:
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return np.where(np.isnan(error), np.inf, error)


def _norm(array: Floats) -> float:
    import numpy as np

    size = np.abs(array)
    return float(np.max(size, initial=0.0, where=np.isfinite(size)))
