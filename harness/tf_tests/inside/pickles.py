"""What travels between a test and its tasks: test cases without pytest's session, exceptions with their traceback."""

from __future__ import annotations

import copyreg
import pickle
import traceback
import types
import unittest
from collections.abc import Mapping
from typing import Any

# What a running test case holds of the process that runs it, and what a copy has instead.
_LEFT_HERE: Mapping[str, Any] = {
    "_outcome": None,
    "_cleanups": (),
    "_subtest": None,
    "_cached_session": None,
    "_threads": (),
    "_test_start_time": None,
}


def _state(case: unittest.TestCase) -> dict[str, Any]:
    return {name: value for name, value in case.__dict__.items() if name not in _LEFT_HERE}


def _set_state(case: unittest.TestCase, state: Mapping[str, Any]) -> None:
    case.__dict__.update({name: list(value) if value == () else value for name, value in _LEFT_HERE.items()})
    case.__dict__.update(state)


def install() -> None:
    """Have test cases, which closures over `self` take along, and tracebacks travel."""
    from multiprocess import reduction

    setattr(unittest.TestCase, "__getstate__", _state)  # noqa: B010 - not typed as settable
    setattr(unittest.TestCase, "__setstate__", _set_state)  # noqa: B010
    # An exception carries its traceback as text; TensorFlow's runner sends the object too, and would need tblib for it.
    copyreg.pickle(types.TracebackType, _nothing)
    reduction.ForkingPickler.register(types.TracebackType, _nothing)


def _nothing(trace: types.TracebackType) -> tuple[Any, tuple[()]]:
    return _none, ()


def _none() -> None:
    """In the place of a traceback."""


def with_traceback(error: BaseException, task: str) -> BaseException:
    """An exception that arrives in another process and says there where it came from.

    Args:
        error: raised in this process.
        task: as in `worker-0`.
    """
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if hasattr(error, "add_note"):  # from Python 3.11 on; before that the log of the task has the traceback
        error.add_note(f"in {task}:\n{text}")
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception as why:  # noqa: BLE001 - whatever an exception's own code may raise
        return RuntimeError(f"{type(error).__name__}: {error} (in {task}; it cannot be sent as it is: {why})\n{text}")
    return error
