"""Processes of the standard `multiprocessing` that a test in a checkout starts: they import what it has imported.

They begin with the path of who starts them, in which the checkout may come first, and know nothing of what
`checkouts` finds: a process that cannot import its function ends without a word, and its test waits for ever.
"""

from __future__ import annotations

import functools
import multiprocessing.process
import multiprocessing.spawn
from collections.abc import Callable
from typing import Any

from _lockstep import hosted, names
from harness.tf_tests.inside.checkouts import installed_first
from harness.tf_tests.inside.state import for_another

_PROCESS: Any = multiprocessing.process.BaseProcess
_SPAWN: Any = multiprocessing.spawn


def install() -> None:
    """From now on they do."""
    _PROCESS.__reduce_ex__ = _reduced
    if not hasattr(_SPAWN.get_preparation_data, "__wrapped__"):
        _SPAWN.get_preparation_data = _prepared(_SPAWN.get_preparation_data)


def _reduced(process: Any, protocol: Any) -> Any:
    del protocol
    return hosted.arrive, (names.claimed(), for_another(), type(process)), process.__dict__


def _prepared(original: Callable[[str], dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
    @functools.wraps(original)
    def prepared(name: str) -> dict[str, Any]:
        # Where `_lockstep` is comes last: the test's own modules are found before whatever lies beside it.
        return {**original(name), "sys_path": [*installed_first(), str(names.HOME)]}

    return prepared
