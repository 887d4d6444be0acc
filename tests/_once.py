"""What tests of several processes of pytest-xdist share: one process computes it, the others read it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import TypeVar

import pytest
from filelock import FileLock

T = TypeVar("T")


def once(factory: pytest.TempPathFactory, name: str, compute: Callable[[], T]) -> T:
    """What `compute` returns, which is computed once in a session.

    Args:
        factory: pytest's; the folders of a session's processes have one parent.
        name: of the file there.
        compute: returns what can be pickled.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:  # the parent is that of all sessions then
        return compute()
    file = factory.getbasetemp().parent / f"{name}.pickle"
    with FileLock(f"{file}.lock"):
        if not file.exists():
            file.write_bytes(pickle.dumps(compute()))
        value: T = pickle.loads(file.read_bytes())
    return value
