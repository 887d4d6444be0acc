"""The order of the tests: files with long tests come first, so that no process is left alone with one of them.

`make test` lets a process that has nothing left take over from the end of another one's tests (`--dist=worksteal`). So
neighbours mostly stay in one process, which has run the references that they share.
"""

from __future__ import annotations

import pytest

from _lockstep.preloads import also_preload

# Modules of tests have these, and are imported by each process that unpickles a function of theirs.
also_preload("pytest", bare=True)
also_preload("click.testing", "harness.cli", "harness.search", "hypothesis")

# Those with the longest single tests, the longest first.
_LONG = (
    "test_refuting_real.py",
    "test_cures.py",
    "test_noise.py",
    "test_witness.py",
    "test_live.py",
    "test_whole_tensors_real.py",
    "test_live_reference.py",
    "test_state_beside.py",
    "test_proving_real.py",
    "test_upstream.py",
    "test_comparing.py",
    "test_steps_judged.py",
    "test_docs.py",
    "test_watch_looks.py",
    "test_reproducibility.py",
)
_RANKS = {name: rank for rank, name in enumerate(_LONG)}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by file; within a file, and among the files that are not named, the order stays."""
    items.sort(key=lambda item: _RANKS.get(item.path.name, len(_RANKS)))
