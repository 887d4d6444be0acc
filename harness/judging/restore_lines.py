"""The line that restores, where that does not bring back what a run in parts had, as its explanation says."""

from __future__ import annotations

from harness.evidence.trace import RunTrace
from harness.judging.culprit import Culprit, restoring_culprit
from harness.judging.explain.restarted_from_scratch import RESTARTED_FROM_SCRATCH
from harness.judging.explain.restored_on_some_workers import RESTORED_ON_SOME
from harness.judging.explain.slots_not_restored import SLOTS_NOT_RESTORED
from harness.judging.explain.state_not_restored import STATE_NOT_RESTORED
from harness.judging.laws.resumed_from_older import LAW as OLDER
from harness.judging.verdict import Verdict

_RULES = (SLOTS_NOT_RESTORED, STATE_NOT_RESTORED, RESTARTED_FROM_SCRATCH, RESTORED_ON_SOME, OLDER.id)
_EXPECTED = "expected all that the run had when it was interrupted"


def line_that_restores(verdict: Verdict, last: RunTrace) -> Culprit | None:
    """That line; None where several restore, or none, or where it is not to blame.

    Args:
        verdict: of a run in parts.
        last: what was judged of it last.
    """
    why, first = verdict.explanation, verdict.first_divergence
    lines = {line for client in last.clients for line in client.counters.restored}
    if why is None or why.rule not in _RULES or len(lines) != 1:
        return None
    return restoring_culprit(lines.pop(), why.evidence.rstrip("."), _EXPECTED, (first and first.step) or 1)
