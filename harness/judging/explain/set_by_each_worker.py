"""Rule: a number that no gradient goes into, such as a rate, is set by each worker from what it alone sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.evidence.observed import is_integer
from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._response import paired
from harness.judging.explain._view import CaseView, Floats
from harness.judging.explain._workers import apart, begun_apart, numbers_begun_apart, of_workers
from harness.judging.explain.protocol import Attempt, Rule

SET_BY_EACH = "set_by_each_worker"
_CURE = (
    "Decide by what all workers have together, such as a loss that strategy.reduce has added up over the replicas, so "
    "that all of them set the same."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    step = next((step for step in view.steps("variables") if view.drifted(step)), None)
    if step is None:
        return
    if not view.case.begin and numbers_begun_apart(view) and (said := begun_apart(view)) is not None:
        yield evident(SET_BY_EACH, f"{said}: each worker has set it by itself, from what that worker alone sees.")
        return
    trained = set(paired(view, step).values()) if view.names("gradients", step) else None
    found = {name: of_workers(view, step, name) for name in view.drifted(step)}
    for name, values in found.items():
        dtype = view.run["variables"][step][name].dtype
        if values is None or values[0].ndim or is_integer(dtype):
            return
        if not (_kept(view, step, name, values) if trained is None else name not in trained):
            return
    name, values = next(iter(found.items()))
    assert values is not None
    yield evident(
        SET_BY_EACH,
        f"At step {step} {apart(view, name, values)}: each worker has set it by itself, from what that worker alone "
        f"sees.",
    )


def _kept(view: CaseView, step: int, name: str, values: Sequence[Floats]) -> bool:
    """Whether some worker has what it had a step before, as none has of what is trained."""
    before = of_workers(view, step - 1, name) if step - 1 in view.steps("variables") else None
    return before is not None and any(now == then for now, then in zip(values, before, strict=True))


RULES: tuple[Rule, ...] = (Predicting(SET_BY_EACH, 27, _attempts, cure=_CURE),)
