"""Law: the gradients of every step are the reference's."""

from __future__ import annotations

from harness.judging.laws._compare import MatchesReference
from harness.judging.laws.protocol import Law

__all__ = ["LAW"]

LAW: Law = MatchesReference(id="gradients_match_reference", observable="gradients", order=60)
