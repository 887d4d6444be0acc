"""Tests that are run again, as pytest-rerunfailures does it: what becomes of their cells."""

from __future__ import annotations

import json

import pytest

from tests.harness.test_plugin import Session, session

__all__ = ["session"]

# What that plugin does, without its options.
AGAIN = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for attempt in range(3):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        again = attempt < 2 and any(report.failed for report in reports)
        for report in reports:
            if again and report.failed:
                report.outcome = "rerun"
            item.ihook.pytest_runtest_logreport(report=report)
        if not again:
            break
        item._initrequest()
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True

def pytest_report_teststatus(report):
    if report.outcome == "rerun":
        return "rerun", "R", "RERUN"
"""
FLAKY = """
import pytest
from helpers import verdict

TRIES = []

@pytest.mark.strategies("mirrored-2")
def test_flaky(strategy, report_row):
    TRIES.append(1)
    report_row("sizes", {"size": len(TRIES)})
    assert verdict(*(["gradients_match_reference"] if len(TRIES) == 1 else []))

@pytest.mark.strategies("mirrored-2")
def test_wrong(strategy):
    assert verdict("gradients_match_reference")
"""


@pytest.mark.parametrize("options", [(), pytest.param(("-n", "1"), marks=pytest.mark.full)], ids=["alone", "xdist"])
def test_of_a_test_that_is_run_again_the_last_time_counts(
    options: tuple[str, ...], session: Session, pytester: pytest.Pytester
) -> None:
    """As by pytest-rerunfailures: one cell, which says what had come before; one that stays wrong stays so."""
    pytester.makeconftest(AGAIN)
    session(FLAKY, *options, "--lockstep-out=out").assert_outcomes(passed=1, failed=1)
    cells = json.loads((pytester.path / "out" / "matrix.json").read_text())["cells"]
    assert [(cell["row"].rpartition(" ")[2], cell["outcome"], len(cell["verdicts"])) for cell in cells] == [
        ("flaky", "ok", 1),
        ("wrong", "FAIL", 1),
    ]
    assert "run 2 times; before: " in cells[0]["reason"]
    assert "run 3 times; before: " in cells[1]["reason"]
