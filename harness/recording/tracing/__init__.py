"""A training step as a graph, taken before it runs: what it computes, of what, and what comes of its results."""

from __future__ import annotations

from harness.recording.tracing.client import Tracing, trace_client
from harness.recording.tracing.trial_batches import BatchOutcome, TrialBatch, read_outcomes

__all__ = ["BatchOutcome", "Tracing", "TrialBatch", "read_outcomes", "trace_client"]
