"""Runs a step on a few rows: to show that it is wrong, or that what was inferred of it is not contradicted."""

from __future__ import annotations

from harness.refuting.counterexamples import confirmed, refuted

__all__ = ["confirmed", "refuted"]
