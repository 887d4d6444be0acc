"""Lockstep's own packages are imported in a session of pytest only when it uses them."""

from __future__ import annotations

import pytest

from _lockstep import names


def need_lockstep() -> None:
    """Call it before importing `harness` or `simulator`: many a session merely has this plugin installed.

    Raises:
        pytest.UsageError: the session has imported a package of its own that has such a name.
    """
    try:
        names.claim()
    except names.NameTaken as taken:
        raise pytest.UsageError(str(taken)) from taken
