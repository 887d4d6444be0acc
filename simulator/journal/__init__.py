"""The record of a run."""

from simulator.journal.journal import Journal, read_journal

__all__ = ["Journal", "read_journal"]
