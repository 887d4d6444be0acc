"""What a verdict leaves open, and more runs of the reference would show.

That two draws of noise were no accident; and what each step is by itself, where variables are recorded at every step.
"""

from __future__ import annotations

from harness.evidence.reference import Reference
from harness.judging.verdict import Verdict

__all__ = ["hides_more", "is_open", "is_plain", "loses_sight"]

_PLAIN = 1e4
"""Times its bound: one draw and such an error say as much as four draws and an error of one bound, see
`harness.judging.tolerance.K`.
"""


def is_open(verdict: Verdict) -> bool:
    """Whether a first look does not do: something is wrong, or much cannot be judged."""
    return any(
        law.status == "broken" or (law.status == "not_judged" and law.resolution is not None)
        for law in verdict.judgements
    )


def is_plain(verdict: Verdict) -> bool:
    """Whether something is wrong that no accident of a few draws explains: bit for bit, or far beyond its bound."""
    exact = any(law.status == "broken" and law.worst_ratio is None for law in verdict.judgements)
    return exact or any(bool(found.bound) and (found.ratio or 0) >= _PLAIN for found in verdict.findings)


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
    steps = reference.trace.clients[0].steps
    return bool(steps) and all(step.variables for step in steps)


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
