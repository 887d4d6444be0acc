"""The matrix as a page: colours for how much of a bound was used, filters, and cells that open their verdicts."""

from __future__ import annotations

import math

from harness.report.matrix import Cell, Matrix
from harness.report.templates import rendered

__all__ = ["matrix_page"]

# A cell is the darker the more of its bound it has used: at a thousandth, a hundredth, a tenth.
_SHADES = (1e-3, 1e-2, 1e-1)


def matrix_page(matrix: Matrix) -> str:
    """Render the page."""
    table = [cell for cell in matrix.cells if cell.strategy]
    # By number, since names may hold anything.
    numbers = {id(cell): number for number, cell in enumerate(matrix.cells)}
    return rendered(
        "matrix.html",
        matrix=matrix,
        rows=list(dict.fromkeys(cell.row for cell in table)),
        columns=list(dict.fromkeys(cell.strategy for cell in table)),
        cells={(cell.row, cell.strategy): cell for cell in table},
        number=lambda cell: numbers[id(cell)],
        shade=_shade,
    )


def _shade(cell: Cell) -> int:
    """From 0, exact or without numbers, to 4."""
    if not isinstance(cell.ratio, int | float) or cell.ratio <= 0 or not math.isfinite(cell.ratio):
        return 0
    return 1 + sum(cell.ratio >= least for least in _SHADES)
