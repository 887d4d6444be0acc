"""Rule: after the interruption some variable began anew that no slot is: a counter, a rate, a callback's memory."""

from __future__ import annotations

from collections.abc import Iterable

from harness.evidence.trace import MEMORY, Array, Variable
from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._resumption import resumption_of
from harness.judging.explain._view import View
from harness.judging.explain.protocol import Attempt, Rule
from harness.judging.laws._begun import begun

__all__ = ["RULES"]

_ID = "state_not_restored"
_SHOWN = 4
_ROUNDING = 1e-4
_Held = tuple[Variable, ...]
_CURE = (
    "What was saved has it under another name, or not at all. Save it with the rest: "
    "tf.train.Checkpoint(model=model, optimizer=optimizer) has the optimizer's iterations and rate, and what a "
    "callback has set or remembers needs a variable in the checkpoint."
)


def _attempts(view: View) -> Iterable[Attempt | None]:
    found, case = resumption_of(view), view.case
    if found is None or found.found.in_epochs:
        return
    run, reference, first = (trace.clients[0].start for trace in (case.run, case.reference, found.found.reference))
    if run is None or reference is None or first is None or case.begin == 0:
        return
    lost, kept = _begun_anew(*begun([run, reference, first]))
    forgot, _ = _begun_anew(*begun([run, reference, first], [MEMORY]))
    if forgot and kept and not lost and _are_numbers(view):
        lost = forgot
    if lost and kept:
        shown = ", ".join(lost[:_SHOWN]) + (f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else "")
        yield evident(_ID, f"{found.where}, and {shown}: begun anew.")


def _are_numbers(view: View) -> bool:
    """Whether all that is wrong are single numbers, as what a callback sets is."""
    wrong = ((step, name) for step in view.steps("variables") for name in view.wrong("variables", step))
    return all(view.reference["variables"][step][name].array.ndim == 0 for step, name in wrong)


def _begun_anew(run: _Held, reference: _Held, first: _Held) -> tuple[list[str], int]:
    """What each variable that is lost holds and should, in words; and how many others have not what they began with."""
    lost, kept = [], 0
    for ours, theirs, anew in zip(run, reference, first, strict=True):
        if _is_alike(ours.value, theirs.value):
            kept += theirs.value != anew.value
        elif ours.value == anew.value:
            observed, expected = (each.value.numpy().reshape(-1) for each in (ours, theirs))
            at = int((observed != expected).argmax())
            where = f"[{at}]" if observed.size > 1 else ""
            lost.append(f"{ours.name!r}{where} is {observed[at]} after the restart where it was {expected[at]}")
        else:  # something else has become of it
            return [], 0
    return lost, kept


def _is_alike(one: Array, other: Array) -> bool:
    """Whether one is the other but for what some steps round."""
    import numpy as np

    if one == other or one.dtype != other.dtype or not one.is_floating:
        return one == other
    ours, theirs = one.numpy().astype(complex), other.numpy().astype(complex)
    return bool(np.allclose(ours, theirs, rtol=_ROUNDING, atol=_ROUNDING * float(np.max(np.abs(theirs), initial=0.0))))


RULES: tuple[Rule, ...] = (Predicting(_ID, 4, _attempts, cure=_CURE),)
