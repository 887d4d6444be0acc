"""Relations of replicas' values to the one device's, inferred over traced graphs: right for every batch, or not."""

from __future__ import annotations

from harness.relations.facts import EVEN, NONEMPTY
from harness.relations.proof import Met, Proof, proof_again
from harness.relations.proving import proof_of

__all__ = ["EVEN", "NONEMPTY", "Met", "Proof", "proof_again", "proof_of"]
