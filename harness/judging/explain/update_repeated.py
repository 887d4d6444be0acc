"""Rule: an update was applied more than once."""

from __future__ import annotations

from collections.abc import Iterable

from harness.judging.explain._prediction import Predicting, evident, judged
from harness.judging.explain._updates import changed_by, counts
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule

_ID = "update_repeated"
_CURE = (
    "ClusterCoordinator runs a closure again when its worker was lost, so an update is applied at least once: count "
    "updates in a variable, and make a repetition harmless (remember which batches were applied) or tolerable. "
    "Without a lost worker, look for a closure that is scheduled twice or applies its gradients twice."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    found = counts(view)
    surplus = found.surplus()
    if found.scheduled is None:
        return  # where replicas are in step, a counter that is ahead has another cause, such as who counts
    known = f"{found.text()}. " if surplus > 0 else ""
    for step, checks in changed_by(view, 1):
        text = f"{known}The variables at the end have what update {step} of the reference adds once more."
        yield judged(_ID, text, checks)
    if surplus > 0:
        yield evident(_ID, f"{found.text()}: {surplus} too many. The counters prove it; which one they do not tell.")


RULES: tuple[Rule, ...] = (Predicting(_ID, 29, _attempts, cure=_CURE),)
