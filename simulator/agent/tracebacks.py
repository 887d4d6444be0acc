"""Tracebacks of programs without the frames of Lockstep's own files, through which their calls go."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

_ROOT = Path(__file__).parents[2]
# Scripts are run through runpy, which one that is started by hand does not show.
_OWN = (*(f"{_ROOT / name}/" for name in ("simulator", "harness", "_lockstep")), "<frozen runpy>")

_REPLACED = "original"
"""What all our functions call what they stand around."""


def hide_own_frames() -> None:
    """Have exceptions that end this process shown without our frames, unless the program shows them in its own way."""
    if sys.excepthook is not sys.__excepthook__:
        return

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        leave_out_own(error)
        return sys.__excepthook__(kind, error, error.__traceback__ or trace)

    sys.excepthook = show


def leave_out_own(error: BaseException) -> None:
    """Take our frames out of the traceback of an exception, and of those that it came from."""
    for each in _chained(error):
        each.__traceback__ = without_own(each.__traceback__)


def without_own(trace: TracebackType | None, own: Iterable[str] = _OWN) -> TracebackType | None:
    """The traceback without frames of files below these folders, but for those at its end: what they raise is theirs.

    One that passes an error on, or has called what it stands around, may be at the end where a library has left out its
    own frames; it goes as well.

    Args:
        trace: the outermost frame.
        own: folders, each with a slash at its end, or files.
    """
    frames: list[TracebackType] = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    while len(frames) > 1 and frames[-1].tb_frame.f_code.co_filename.startswith(tuple(own)) and _passes_on(frames[-1]):
        frames.pop()
    theirs = [not each.tb_frame.f_code.co_filename.startswith(tuple(own)) for each in frames]
    last = max((index for index, yes in enumerate(theirs) if yes), default=-1)
    kept = [each for index, each in enumerate(frames) if theirs[index] or index > last]
    for one, following in zip(kept, [*kept[1:], None], strict=False):
        one.tb_next = following
    return kept[0] if kept else None


def _passes_on(trace: TracebackType) -> bool:
    """Whether this frame ended by raising again what it had caught, or in a call of the function that it replaces."""
    code = trace.tb_frame.f_code
    at = trace.tb_lasti
    while dis.opname[code.co_code[at]] == "CACHE":  # of a call of a Python function
        at -= 2
    name, argument = dis.opname[code.co_code[at]], code.co_code[at + 1]
    if "CALL" in name:
        return _REPLACED in (*code.co_varnames, *code.co_freevars)
    return name == "RERAISE" or (name == "RAISE_VARARGS" and argument == 0)


def _chained(error: BaseException) -> Iterable[BaseException]:
    found: dict[int, BaseException] = {}
    waiting: list[BaseException | None] = [error]
    while waiting:
        if (each := waiting.pop()) is not None and id(each) not in found:
            found[id(each)] = each
            waiting += [each.__cause__, each.__context__]
    return found.values()
