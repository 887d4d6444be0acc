"""What a session of verified runs looks like to a reader."""

from harness.report.matrix import Cell, Matrix

__all__ = ["Cell", "Matrix"]
