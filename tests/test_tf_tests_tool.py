"""The table of TensorFlow's own tests: what was run stays, what is run again is replaced, and sums are sums."""

from __future__ import annotations

from tools.tf_tests import PAGE, Row, region, row_of, rows_of

OLD = Row(True, (9, 5, 4, 0, 2, 1, 1, 0))
CUT = Row(False, (3, 1, 1, 1, 1, 0, 0, 0))


def test_rows_are_read_as_they_are_written() -> None:
    """Also those of files that were cut off."""
    rows = {"a/x_test.py": OLD, "a/y_test.py": CUT, "b/z_test.py": OLD}
    assert rows_of(region(rows)) == rows
    assert "| **a: 2 files** | 12 | 6 | 5 | 1 | 3 | 1 | 1 | 0 |" in region(rows)
    assert "| **b: 1 files** | 9 | 5 | 4 | 0 | 2 | 1 | 1 | 0 |" in region(rows)


def test_the_page_has_the_sums_of_its_rows() -> None:
    """A number that was changed by hand shows."""
    page = PAGE.read_text()
    assert region(rows_of(page)) in page
    assert region(rows_of(page)) not in page.replace(" 88 | 0 | 242 |", " 89 | 0 | 242 |")


def test_an_expected_failure_counts_as_passed() -> None:
    """And an error as a failure."""
    found = row_of(
        {
            "complete": True,
            "outcomes": {"passed": 2, "xfailed": 1, "failure": 1, "error": 1, "skipped": 2},
            "with_tasks": {"passed": 1, "xfailed": 1, "failure": 1},
            "skips": {"GPU": 1, "other": 1},
        }
    )
    assert found == Row(True, (7, 3, 2, 2, 1, 0, 0, 1))
