"""Rule: after the interruption some variable began anew that no slot is: a counter, a rate, a callback's memory."""

from __future__ import annotations

from collections.abc import Iterable

from harness.judging.explain._initial_state import SHOWN, lost_state
from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._resumption import resumption_of
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule
from harness.judging.wording import first_ones

STATE_NOT_RESTORED = "state_not_restored"
_CURE = (
    "What was saved has it under another name, or not at all. Save it with the rest: "
    "tf.train.Checkpoint(model=model, optimizer=optimizer) has the optimizer's iterations and rate, and what a "
    "callback has set or remembers needs a variable in the checkpoint."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    found = resumption_of(view)
    lost = None if found is None else lost_state(found)
    if found is None or lost is None or not (lost.names and lost.kept) or lost.others:
        return
    if not lost.memory or _are_numbers(view):
        yield evident(STATE_NOT_RESTORED, f"{found.where}, and {first_ones(lost.said, SHOWN)}: begun anew.")


def _are_numbers(view: CaseView) -> bool:
    """Whether all that is wrong are single numbers, as what a callback sets is."""
    wrong = ((step, name) for step in view.steps("variables") for name in view.wrong("variables", step))
    return all(view.reference["variables"][step][name].array.ndim == 0 for step, name in wrong)


RULES: tuple[Rule, ...] = (Predicting(STATE_NOT_RESTORED, 4, _attempts, cure=_CURE),)
