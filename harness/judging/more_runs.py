"""What a verdict leaves open, and more runs of the reference would show: that two draws of noise were no accident."""

from __future__ import annotations

from harness.judging.verdict import Verdict

PLAIN = 1e4
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
    return exact or any(bool(found.bound) and (found.ratio or 0) >= PLAIN for found in verdict.findings)
