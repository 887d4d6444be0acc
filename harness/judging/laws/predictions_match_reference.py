"""Law: the predictions, in input order, are the reference's."""

from __future__ import annotations

from harness.judging.laws._compare import MatchesReference

LAW = MatchesReference(id="predictions_match_reference", observable="predictions", order=90)
