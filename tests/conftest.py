"""The order of the tests: files that start much come first, so that no process is left alone with one of them.

`make test` lets a process that has nothing left take over from the end of another one's tests (`--dist=worksteal`). So
neighbours mostly stay in one process, which has run the references that they share.
"""

from __future__ import annotations

import pytest

from _lockstep.preloads import also_preload

# Every module of tests has it, and is imported by each process that unpickles a function of it.
also_preload("pytest", bare=True)

# By the processor time of the whole file, dearest first; measured with one process of pytest for each core.
_DEAR = (
    "test_docs.py",
    "test_interrupt_real.py",
    "test_explain_real.py",
    "test_plugin.py",
    "test_cli_run.py",
    "test_verify.py",
    "test_verify_faults.py",
    "test_faults_tensorflow.py",
    "test_command.py",
    "test_no_false_alarm.py",
    "test_cli_replay.py",
    "test_cli_search.py",
    "test_search.py",
    "test_installed.py",
    "test_saves_tensorflow.py",
    "test_drawing.py",
)
_RANKS = {name: rank for rank, name in enumerate(_DEAR)}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by file; within a file, and among the files that are not named, the order stays."""
    items.sort(key=lambda item: _RANKS.get(item.path.name, len(_RANKS)))
