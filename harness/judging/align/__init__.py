"""Puts the parts of a run among the steps of its reference, once: from then on there are cases."""

from harness.judging.align.cases import aligned_cases, begins

__all__ = ["aligned_cases", "begins"]
