"""Every example of a run: who consumed it, in which epoch, step, worker and replica, and in which order."""

from harness.ledger._align import Aligned, Differences, aligned
from harness.ledger._consumed import Batches
from harness.ledger._ledger import Ledger

__all__ = ["Aligned", "Batches", "Differences", "Ledger", "aligned"]
