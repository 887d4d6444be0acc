"""A training step as a graph, taken before it runs: what it computes, of what, and what comes of its results."""

from __future__ import annotations

from harness.recording.tracing.client import Tracing, trace_client
from harness.recording.tracing.trial_batches import Batch, Outcome, read_outcomes

__all__ = ["Batch", "Outcome", "Tracing", "read_outcomes", "trace_client"]
