"""Law: the loss of every step is the reference's."""

from __future__ import annotations

from harness.judging.laws._compare import MatchesReference

LAW = MatchesReference(id="loss_matches_reference", observable="loss", order=50)
