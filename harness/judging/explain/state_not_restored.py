"""Rule: after the interruption some variable began anew that no slot is: a counter, a rate, a callback's memory."""

from __future__ import annotations

from collections.abc import Iterable

from harness.evidence.trace import Start
from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._resumption import resumption_of
from harness.judging.explain._view import View
from harness.judging.explain.protocol import Attempt, Rule
from harness.judging.laws._begun import begun

__all__ = ["RULES"]

_ID = "state_not_restored"
_SHOWN = 4
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
    lost, kept = _begun_anew(run, reference, first)
    if lost and kept:
        shown = ", ".join(lost[:_SHOWN]) + (f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else "")
        yield evident(_ID, f"{found.where}, and {shown}: begun anew. {_CURE}")


def _begun_anew(run: Start, reference: Start, first: Start) -> tuple[list[str], int]:
    """What each variable that is lost holds and should, in words; and how many others have not what they began with."""
    lost, kept = [], 0
    for ours, theirs, anew in zip(*begun([run, reference, first]), strict=True):
        if ours.value == theirs.value:
            kept += theirs.value != anew.value
        elif ours.value == anew.value:
            observed, expected = (each.value.numpy().reshape(-1) for each in (ours, theirs))
            at = int((observed != expected).argmax())
            where = f"[{at}]" if observed.size > 1 else ""
            lost.append(f"{ours.name!r}{where} is {observed[at]} after the restart where it was {expected[at]}")
        else:  # something else has become of it
            return [], 0
    return lost, kept


RULES: tuple[Rule, ...] = (Predicting(_ID, 4, _attempts),)
