"""Rule: after the interruption the run went on from an older save than the newest complete one."""

from __future__ import annotations

from collections.abc import Iterable

from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._resumption import resumption_of
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule
from harness.judging.laws.resumed_from_older import LAW

_CURE = (
    "Usual causes: names sorted as text, where ckpt-10 comes before ckpt-9; a path that was noted earlier; a file "
    "`checkpoint` that does not name the newest. Take tf.train.latest_checkpoint(folder) or manager.latest_checkpoint. "
    "A program that is meant to go back removes the newer saves before, or keeps what it goes back to under a name of "
    "its own."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    found = resumption_of(view)
    # Wrong values come from something else: going on from an older save repeats steps, and changes none.
    if found is None or any(view.wrong(what, found.first) for what in ("loss", "variables")):
        return
    for finding in LAW.judge(view.case).findings:
        yield evident(LAW.id, f"After the interruption the run {finding.text}.")


RULES: tuple[Rule, ...] = (Predicting(LAW.id, 1, _attempts, cure=_CURE),)
