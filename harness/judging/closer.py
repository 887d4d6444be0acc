"""Whether a run would show more if each of its steps were judged by itself.

That takes variables that are recorded at every step, and more runs of the reference.
"""

from __future__ import annotations

from harness.evidence.reference import Reference
from harness.judging.verdict import Verdict

__all__ = ["hides_more", "loses_sight"]


def hides_more(verdict: Verdict, reference: Reference) -> bool:
    """Whether several steps are wrong, nothing tells which of them are by themselves, and no rule explains the numbers.

    Where a rule does, looking further would cost more than it tells.
    """
    first = verdict.first_divergence
    if verdict.outcome != "inconsistent" or verdict.explanation is not None or verdict.abstained is not None:
        return False
    if first is None or (at := first.step) is None or not _recorded_always(reference):
        return False
    return sum(step.index > at for step in reference.trace.clients[0].steps) > 1


def _recorded_always(reference: Reference) -> bool:
    return all(step.variables for step in reference.trace.clients[0].steps)


def loses_sight(verdict: Verdict, reference: Reference) -> bool:
    """Whether variables can be judged at some steps and not at most: rounding grows from step to step, to any size.

    A training that is not judged from its first step on, in bfloat16 for example, is not judged by itself either.
    """
    if verdict.outcome == "inconsistent" or not _recorded_always(reference):
        return False
    return any(
        law.law == "variables_match_reference" and law.status == "not_judged" and found.loosest is not None
        for law in verdict.judgements
        if (found := law.resolution) is not None
    )
