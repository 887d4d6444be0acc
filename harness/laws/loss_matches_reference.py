"""Law: the loss of every step is the reference's."""

from __future__ import annotations

from harness.laws._compare import MatchesReference
from harness.laws.protocol import Law

__all__ = ["LAW"]

LAW: Law = MatchesReference(id="loss_matches_reference", observable="loss", order=50)
