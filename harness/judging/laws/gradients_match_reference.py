"""Law: the gradients of every step are the reference's."""

from __future__ import annotations

from harness.judging.laws._compare import MatchesReference

LAW = MatchesReference(id="gradients_match_reference", observable="gradients", order=60)
