"""Law: every metric is the reference's at every step and at the end."""

from __future__ import annotations

from harness.judging.laws._compare import MatchesReference

LAW = MatchesReference(id="metrics_match_reference", observable="metrics", order=80)
