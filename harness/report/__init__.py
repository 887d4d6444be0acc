"""What a session of verified runs looks like to a reader."""

from harness.report.matrix import Cell, Matrix, in_order

__all__ = ["Cell", "Matrix", "in_order"]
