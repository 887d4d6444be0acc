"""Rule: after the interruption the variables are those of another step than the one after which it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.evidence.trace import Array
from harness.judging.explain._initial_state import is_alike
from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._resumption import Resumption, resumption_of
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule
from harness.judging.laws._initial_values import initial_values

_ID = "state_of_another_step"
_CURE = (
    "Save how far the training is together with what it has made, after both: count the step or the epoch first, and "
    "save then. What is saved in a callback may be saved before Keras has counted."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    found = resumption_of(view)
    if found is None or found.found.in_epochs:
        return
    begin, held = found.found.resumed_at, set(_steps_held(found))
    if not held or begin in held:
        return
    step = max(held)
    said = f"{found.where}, with the variables that it had after step {step}"
    lost, again = _steps(step + 1, begin), _steps(begin + 1, step)
    yield evident(_ID, f"{said}: what {lost} made is lost." if step < begin else f"{said}, and does {again} again.")


def _steps_held(found: Resumption) -> Iterator[int]:
    """The steps after which the killed part had all the variables that this one begins with."""
    start = found.view.case.run.clients[0].start
    if start is None:
        return
    (begun,) = initial_values([start])
    for step, variables in found.before.items():
        known = [(each.value, variables[each.name]) for each in begun if each.name in variables]
        alike = (is_alike(ours, Array.of(theirs.array.astype(theirs.dtype))) for ours, theirs in known)
        if step is not None and known and all(alike):
            yield step


def _steps(first: int, last: int) -> str:
    return f"step {first}" if first == last else f"steps {first} to {last}"


RULES: tuple[Rule, ...] = (Predicting(_ID, 2, _attempts, cure=_CURE),)
