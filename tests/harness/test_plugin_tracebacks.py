"""What a failed test shows of an error that Lockstep raised."""

from __future__ import annotations

import pytest

from tests.harness._inside import run_inside

FAILING = """
from simulator import Cluster, Topology

def test_wrong():
    with Cluster(Topology(ps=1, worker=1)) as cluster:
        cluster.run(print)
"""


def test_an_error_of_lockstep_shows_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    """And no source of Lockstep, unless it is asked for."""
    pytester.makepyfile(test_sample=FAILING)
    result = run_inside(pytester)
    result.stdout.fnmatch_lines([">*cluster.run(print)", "E * nobody would run *"], consecutive=True)
    assert "cluster.py" not in result.stdout.str()
    assert "cluster.py" in run_inside(pytester, "--full-trace").stdout.str()


CHAINED = """
from simulator import LockstepError

def _fails():
    raise LockstepError("what was met first")

def test_wrong():
    try:
        _fails()
    except LockstepError as error:
        raise LockstepError("what came of it, as was met first") from error
"""


def test_an_error_of_lockstep_stands_for_the_one_that_it_was_raised_from(pytester: pytest.Pytester) -> None:
    """Which says the same, with sources of Lockstep; --full-trace shows both."""
    pytester.makepyfile(test_sample=CHAINED)
    assert "direct cause" not in run_inside(pytester).stdout.str()
    assert "direct cause" in run_inside(pytester, "--full-trace").stdout.str()
