"""The table of TensorFlow's own tests: what was run stays, what is run again is replaced, and sums are sums."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import pages
from tools.tf_tests import PAGE, REGIONS, Row, collect, in_order, region, row_of, rows_of, run_one

OLD = Row(True, (9, 5, 4, 0, 2, 1, 1, 0))
CUT = Row(False, (3, 1, 1, 1, 1, 0, 0, 0))


def test_rows_are_read_as_they_are_written() -> None:
    """Also those of files that were cut off."""
    rows = {"a/x_test.py": OLD, "a/y_test.py": CUT, "b/z_test.py": OLD}
    assert rows_of(region(rows)) == rows
    assert "| **a: 2 files** | 12 | 6 | 5 | 1 | 3 | 1 | 1 | 0 |" in region(rows)
    assert "| **b: 1 files** | 9 | 5 | 4 | 0 | 2 | 1 | 1 | 0 |" in region(rows)


@pytest.mark.parametrize("name", REGIONS.values())
def test_the_page_has_the_sums_of_its_rows(name: str) -> None:
    """A number that was changed by hand shows."""
    part = pages.region(PAGE.read_text(), name)
    rows = rows_of(part)
    assert part.strip() == region(rows)
    file, row = next((file, row) for file, row in rows.items() if row.numbers[1])
    changed = Row(row.complete, (row.numbers[0], row.numbers[1] + 1, *row.numbers[2:]))
    assert part.strip() != region(rows | {file: changed})


def test_an_expected_failure_counts_as_passed() -> None:
    """And an error as a failure; of a file that was cut off all tests are counted that it has."""
    tests = {
        "C::0": {"outcome": "passed", "tasks": True},
        "C::1": {"outcome": "passed"},
        "C::2": {"outcome": "xfailed", "tasks": True},
        "C::3": {"outcome": "failure", "tasks": True},
        "C::4": {"outcome": "error"},
        "C::5": {"outcome": "skipped", "reason": "GPU"},
        "C::6": {"outcome": "skipped", "reason": "other"},
    }
    found = {"complete": True, "collected": [], "tests": tests}
    assert row_of(found) == Row(True, (7, 3, 2, 2, 1, 0, 0, 1))
    assert row_of(found | {"complete": False, "collected": [*tests, "C::7"]}).numbers[0] == 8


_FILE = """
import os
import pytest

class TestNested:
    class TestInner:
        def test_first(self): pass

    def test_a(self): pass

    def test_ab(self):
        assert os.environ.get("LET_IT_END"), "not yet"
        pytest.skip("Only 0 of 2 required GPUs are available.")

def test_z(): pass
"""


@pytest.mark.full
def test_a_file_goes_on_with_the_tests_that_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with one whose name begins as that of another one which has run."""
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "x_test.py").write_text(_FILE)
    monkeypatch.setenv("LET_IT_END", "1")
    names = ["TestNested::TestInner::test_first", "TestNested::test_a", "TestNested::test_ab", "test_z"]
    assert collect(tmp_path, "some/x_test.py", ()) == names
    before = {"collected": names, "tests": {"TestNested::test_a": {"outcome": "failure"}}, "seconds": 1.0}
    found = run_one(tmp_path, "some/x_test.py", before, 60, ())
    assert found["complete"]
    assert {name: one["outcome"] for name, one in found["tests"].items()} == {
        "TestNested::test_a": "failure",
        "TestNested::TestInner::test_first": "passed",
        "TestNested::test_ab": "skipped",
        "test_z": "passed",
    }
    assert found["tests"]["TestNested::test_ab"]["reason"] == "GPU"


def test_what_matters_most_runs_first() -> None:
    """Whatever the case of its letters; the rest keeps the order of the file."""
    names = ["T::test_b", "T::test_a_MultiWorker", "T::test_c", "T::test_a", "T::test_b_MultiWorker"]
    assert in_order(names, "multiworker") == [names[1], names[4], names[0], names[2], names[3]]


@pytest.mark.full
def test_a_test_that_was_interrupted_has_not_passed(tmp_path: Path) -> None:
    """JUnit's file would name it for its setup, without a failure."""
    (tmp_path / "x_test.py").write_text("def test_1(): pass\n\ndef test_2(): raise KeyboardInterrupt\n")
    assert list(run_one(tmp_path, "x_test.py", {}, 60, ())["tests"]) == ["test_1"]
