"""The matrix as one self-contained HTML page."""

from __future__ import annotations

from harness.report.matrix import Matrix
from simulator import UsageError

__all__ = ["matrix_page"]


def matrix_page(matrix: Matrix) -> str:
    """Render the page.

    Raises:
        UsageError: jinja2, of the extra `report`, is not installed.
    """
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise UsageError("HTML needs jinja2: pip install 'tf-lockstep[report]'") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("harness.report", "templates"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    table = [cell for cell in matrix.cells if cell.strategy]
    return environment.get_template("matrix.html").render(
        matrix=matrix,
        rows=list(dict.fromkeys(cell.row for cell in table)),
        columns=list(dict.fromkeys(cell.strategy for cell in table)),
        cells={(cell.row, cell.strategy): cell for cell in table},
    )
