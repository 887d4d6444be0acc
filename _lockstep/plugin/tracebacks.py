"""What a failed test shows of an error that Lockstep raised on purpose: the test's own line, and the message."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import pytest

from _lockstep import names

# With what stands between the frames of a context manager and of those who enter it.
_OURS = ("_lockstep", "contextlib", *names.PACKAGES)


@contextlib.contextmanager
def only_theirs(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """Have a report show no frames of Lockstep in such an error, unless pytest is called with --full-trace.

    Nor an error of Lockstep's own that it was raised from, whose text it has. The error itself keeps both, for --pdb.
    """
    found = call.excinfo
    if found is None or not names.loaded("simulator") or item.config.getoption("fulltrace", default=False):
        yield
        return
    from simulator.errors import LockstepError

    error = found.value
    if not isinstance(error, LockstepError) or (shown := _theirs(found.tb)) is None:
        yield
        return
    call.excinfo = pytest.ExceptionInfo.from_exc_info((found.type, error, shown))
    cause, hidden = error.__cause__, error.__suppress_context__
    if isinstance(cause, LockstepError):
        error.__cause__ = None  # which hides the context, too
    yield
    error.__cause__, error.__suppress_context__ = cause, hidden
    call.excinfo = found


def _theirs(traceback: TracebackType | None) -> TracebackType | None:
    if traceback is None:
        return None
    rest, frame = _theirs(traceback.tb_next), traceback.tb_frame
    if str(frame.f_globals.get("__name__")).partition(".")[0] in _OURS:
        return rest
    return TracebackType(rest, frame, traceback.tb_lasti, traceback.tb_lineno)
