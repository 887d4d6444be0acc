"""Tests of the tables of a report."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness.report import Matrix, TableRow, gather
from tests.harness._called import called


def test_a_table_is_aligned_and_has_a_title() -> None:
    """A cell that a row lacks is empty, and trailing blanks are left out."""
    (table,) = gather([TableRow("t", {"a": "1", "long name": "x"}), TableRow("t", {"a": "100"})])
    assert list(table.lines()) == ["t", "a    long name", "---  ---------", "1    x", "100"]


def test_report_prints_the_tables_of_a_matrix(tmp_path: Path) -> None:
    """`lockstep report DIR` shows them below the matrix, `--html` in the page."""
    matrix = Matrix(tables=gather([TableRow("truth", {"reduction": "SUM", "loss": "2 x <mean>"})]))
    (tmp_path / "matrix.json").write_bytes(msgspec.json.encode(matrix))
    printed = called("report", tmp_path)
    assert "truth\nreduction  loss\n---------  ----------\nSUM        2 x <mean>\n" in printed.output
    page = tmp_path / "page.html"
    called("report", tmp_path, "--html", page)
    assert "<td>2 x &lt;mean&gt;</td>" in page.read_text()
