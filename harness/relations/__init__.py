"""Relations of replicas' values to the one device's, inferred over traced graphs: right for every batch, or not."""

from __future__ import annotations

from harness.relations.proof import Proof
from harness.relations.proving import proof_of

__all__ = ["Proof", "proof_of"]
