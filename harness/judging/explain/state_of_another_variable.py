"""Rule: after the interruption variables hold what others held, as where they were saved in place of these."""

from __future__ import annotations

from collections.abc import Iterable

from harness.evidence.trace import Array
from harness.judging.explain._initial_state import SHOWN, is_alike
from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._resumption import Resumption, resumption_of
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule
from harness.judging.laws._initial_values import initial_values

_ID = "state_of_another_variable"
_CURE = (
    "Save the weights themselves: what stands in their place for an evaluation, such as their moving averages, has to "
    "be swapped back before the save. Restore each variable by its name, and not by its place in a list."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    found = resumption_of(view)
    if found is None or found.found.in_epochs or not (others := _others(found)):
        return
    said = ", ".join(f"{name!r} as {other!r} was" for name, other in others[:SHOWN])
    more = f", and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
    yield evident(_ID, f"{found.where}, with {said}{more}.")


def _others(found: Resumption) -> list[tuple[str, str]]:
    """Each variable that begins wrong, with the one that should begin so; nothing where some begin with neither."""
    run, reference = (trace.clients[0].start for trace in (found.view.case.run, found.view.case.reference))
    if run is None or reference is None:
        return []
    pairs = list(zip(*initial_values([run, reference]), strict=True))
    wrong = [ours for ours, theirs in pairs if not is_alike(ours.value, theirs.value)]
    held = [next((truth.name for _, truth in pairs if _same(ours.value, truth.value)), None) for ours in wrong]
    # One number may be another one's by accident.
    several = any(len({*ours.value.numpy().reshape(-1).tolist()}) > 1 for ours in wrong)
    found_all = several and None not in held
    return [(ours.name, other or "") for ours, other in zip(wrong, held, strict=True)] if found_all else []


def _same(one: Array, other: Array) -> bool:
    return one.shape == other.shape and is_alike(one, other)


RULES: tuple[Rule, ...] = (Predicting(_ID, 2, _attempts, cure=_CURE),)
