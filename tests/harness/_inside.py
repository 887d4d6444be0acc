"""Sessions of pytest in this process, with the plugin: sooner over than one of their own, for what imports little."""

from __future__ import annotations

import pytest

# Afterwards all is forgotten that such a session was the first to import. What C has made must not come twice.
from harness import report
from harness.judging import known_issues
from harness.subject import strategies
from simulator import cluster

__all__ = ["cluster", "known_issues", "report", "run_inside", "strategies"]

strategies.all_kinds()


def run_inside(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Run the test files that are in its directory."""
    return pytester.runpytest_inprocess("-p", "harness.plugin", "-p", "no:cacheprovider", "-q", *options)
