"""Law: every variable, optimizer slots and counters included, is the reference's after every step and at the end."""

from __future__ import annotations

from harness.judging.laws._compare import MatchesReference

LAW = MatchesReference(id="variables_match_reference", observable="variables", order=70)
