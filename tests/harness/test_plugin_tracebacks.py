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
