"""A training step as a graph, taken before it runs: what it computes, of what, and what comes of its results."""

from __future__ import annotations

from harness.recording.tracing.client import Tracing, trace_client

__all__ = ["Tracing", "trace_client"]
