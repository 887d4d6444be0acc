"""Rule: an update was never applied, or not to every copy."""

from __future__ import annotations

from collections.abc import Iterable

from harness.judging.explain._prediction import Predicting, evident, judged
from harness.judging.explain._updates import changed_by, counts
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule

_ID = "update_lost"
_OF_CLOSURES = (
    "Schedule every update and wait for all of them, ClusterCoordinator.join(), before reading; let join() raise what "
    "a closure raised instead of ignoring it; update variables with assign_add and assign_sub, which add, and not with "
    "assign of a value that was read before, which overwrites what others have added meanwhile."
)
_OF_COPIES = "Update all copies: in every replica's function, or outside of it, where an assignment reaches each copy."


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    found = counts(view)
    lost = -found.surplus()
    if found.scheduled is not None:
        known = f"{found.text()}. " if lost > 0 else ""
        for step, checks in changed_by(view, -1):
            text = f"{known}The variables at the end lack exactly what update {step} of the reference adds."
            yield judged(_ID, text, checks)
    if lost > 0 and (found.scheduled is not None or not _drifts(view)):
        text = f"{found.text()}: {lost} lost. The counters prove it; which one it is they do not tell."
        yield evident(_ID, text, cure=_OF_CLOSURES if found.scheduled is not None else "")
    yield _stale_copy(view)


def _drifts(view: CaseView) -> bool:
    """Whether copies have come apart by what each of them was given: then something else has updated them."""
    first = view.first_wrong("variables")
    return first is not None and bool(view.drifted(first))


def _stale_copy(view: CaseView) -> Attempt | None:
    """At the first drift some copies are what they were, while the others are right."""
    import numpy as np

    step = next((step for step in view.steps("variables") if view.drifted(step)), None)
    if step is None or view.wrong("variables", step - 1):
        return None
    names = view.drifted(step)
    stale: set[int] = set()
    for name in names:
        now, then = view.copies(step, name), view.copies_before(step, name)
        if len(then) < len(now):
            return None
        bound, truth = view.bound("variables", name, step), view.truth("variables", step, name)
        right = {k for k, copy in enumerate(now) if np.all(np.abs(copy - truth) <= bound)}
        unmoved = {k for k, copy in enumerate(now) if np.array_equal(copy, then[k])} - right
        if not right or len(right | unmoved) < len(now):
            return None
        stale |= unmoved
    if not stale:  # they differ by less than the bound
        return None
    return evident(
        _ID,
        f"At step {step} the copies of {', '.join(names)} on replica {', '.join(map(str, sorted(stale)))} keep the "
        "value that they began it with, while the others are right: an update did not reach them.",
        cure=_OF_COPIES,
    )


RULES: tuple[Rule, ...] = (Predicting(_ID, 28, _attempts, cure=_OF_CLOSURES),)
