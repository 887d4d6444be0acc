"""The record of a run, and what of it a second run must repeat."""

from simulator.journal.history import canonical_history
from simulator.journal.journal import Journal, read_journal

__all__ = ["Journal", "canonical_history", "read_journal"]
