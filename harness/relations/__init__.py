"""Relations of replicas' values to the one device's, inferred over traced graphs: right for every batch, or not."""

from __future__ import annotations

from harness.relations.facts import COARSE, EVEN, NONEMPTY
from harness.relations.proof import Counterexample, Met, Proof, proof_again
from harness.relations.prover import proof_of

__all__ = ["COARSE", "EVEN", "NONEMPTY", "Counterexample", "Met", "Proof", "proof_again", "proof_of"]
