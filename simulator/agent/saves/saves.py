"""In a task: what saves and restores, each outermost call told to the parent, and the points of it where faults stop.

The one place that knows what a save is. `simulator.agent.saves.saving` says which calls of TensorFlow and Keras are
instrumented; `simulator.faults` asks to stop at a point with `stop_at`. Outside of a task an instrumented call does
nothing of its own, and whatever goes wrong in the bookkeeping is a line in the log and never reaches the program.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulator.agent.agent import current
from simulator.agent.attach import AGENT_VARIABLE, attach
from simulator.agent.steps.state import digest
from simulator.wire import control


@dataclass(frozen=True)
class SaveFunction:
    """What an instrumented function is.

    Attributes:
        kind: the name that users know it by.
        place: of the argument with the path, and its `name`; None if it has none.
        restores: whether it reads.
        sure: whether something is saved or restored whenever it is called. `CheckpointManager.save` may do nothing.
        final: whether its path is the whole one. `Checkpoint.save` adds a number to it.
        enters: whether phase `before_save` is at its beginning, or `before_restore` where it restores.
        leaves: whether phase `after_save` is at its end.
    """

    kind: str
    place: int | None = None
    name: str = ""
    restores: bool = False
    sure: bool = False
    final: bool = False
    enters: bool = False
    leaves: bool = False


@dataclass
class _Call:
    """An outermost call that is under way, with the instrumented calls inside it."""

    saving: SaveFunction
    kind: str
    began: float
    background: bool
    path: Any = None
    number: int = field(default_factory=itertools.count(1).__next__)
    depth: int = 0
    told: bool = False
    final: bool = False
    handed_over: bool = False
    # Whether it stands behind its first point, and how many calls that are to come to the last one are open.
    entered: bool = False
    leaving: int = 0


class _Here(threading.local):
    call: _Call | None = None
    # In TensorFlow's thread of asynchronous checkpoints: the kinds of the calls that it works for, in their order.
    handed: deque[str] | None = None


_here = _Here()
_stops: dict[str, Callable[[], object]] = {}
# Objects with a thread that writes for calls that have returned, and the kinds of those calls.
_writers: weakref.WeakKeyDictionary[Any, deque[str]] = weakref.WeakKeyDictionary()
_said: list[str] = []
_listeners: list[Callable[[Any, bool], object]] = []
_before: list[Callable[[Any, bool], object]] = []


def listen(listener: Callable[[Any, bool], object], before: Callable[[Any, bool], object] | None = None) -> None:
    """Have `listener(path, restores)` called at the end of each save or restore that this process makes.

    Args:
        listener: see above.
        before: is called in the same way before any file is touched.
    """
    _listeners.append(listener)
    if before is not None:
        _before.append(before)


def stop_at(phase: str, gate: Callable[[], object]) -> None:
    """Have `gate` called at point `before_save`, `after_save` or `before_restore` of each save or restore."""
    _stops[phase] = gate


def instrument(owner: Any, function: str, saving: SaveFunction) -> None:
    """Put a wrapper in the place of a method or a module's function; nothing happens where there is none."""
    original = getattr(owner, function, None)
    if original is None:
        return  # of another version

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        call = _enter(saving, args, kwargs)
        if call is None:
            return original(*args, **kwargs)
        try:
            _stop_before(call, saving)
            value = original(*args, **kwargs)
            _stop_after(call, saving)
        except BaseException as error:
            _leave(call, saving, None, error)
            raise
        _leave(call, saving, value, None)
        return value

    # AutoGraph must not look inside: it would convert TensorFlow's own function too.
    wrapped.autograph_info__ = {"conversion": False}  # type: ignore[attr-defined]
    setattr(owner, function, wrapped)


def hand_over(owner: Any, function: str) -> None:
    """A method whose work is done by a thread of its object, after it has returned; see `in_background`."""
    original = getattr(owner, function, None)
    if original is None:
        return

    @functools.wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _here.call
        if call is None:
            return original(self, *args, **kwargs)
        handed = _handed_by(self)
        handed.append(call.kind)
        if not call.told:
            _tell(call, lambda: _begun_message(call))
        try:
            value = original(self, *args, **kwargs)
        except BaseException:
            # It is raised before anything is handed over, mostly for a failure of the save before.
            handed.pop()
            raise
        call.handed_over = True
        return value

    setattr(owner, function, wrapped)


def in_background(owner: Any, function: str) -> None:
    """The method that such a thread runs for as long as it lives."""
    original = getattr(owner, function, None)
    if original is None:
        return

    @functools.wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        _here.handed = _handed_by(self)
        return original(self, *args, **kwargs)

    setattr(owner, function, wrapped)


def _handed_by(writer: Any) -> deque[str]:
    """The kinds of the calls that this object's thread has still to work for."""
    try:
        return _writers.setdefault(writer, deque())
    except Exception as error:  # noqa: BLE001 - see the head of this module
        _complain(error)
        return deque()


def wait_background(seconds: float) -> None:
    """Wait, so long at most, until nothing that was handed over is still to be written."""
    deadline = time.monotonic() + seconds
    try:
        for writer in list(_writers):
            waiting = writer._queue  # noqa: SLF001 - TensorFlow's own `sync` waits for it, without an end
            with waiting.all_tasks_done:
                while waiting.unfinished_tasks and (left := deadline - time.monotonic()) > 0:
                    waiting.all_tasks_done.wait(left)
    except Exception as error:  # noqa: BLE001 - see the head of this module
        _complain(error)


def _enter(saving: SaveFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call | None:
    """The outermost call that this one belongs to; None where nothing is to be recorded."""
    call = _here.call
    if call is None:
        try:
            if not _in_task() or _traced():
                return None
        except Exception as error:  # noqa: BLE001 - see the head of this module
            _complain(error)
            return None
        call = _here.call = _begun(saving)
    call.depth += 1
    call.leaving += saving.leaves
    if not call.final and saving.place is not None:
        path = kwargs.get(saving.name, args[saving.place] if len(args) > saving.place else None)
        call.path, call.final = path, saving.final
    if saving.sure and not call.told:
        _tell(call, lambda: _begun_message(call))
    return call


def _begun(saving: SaveFunction) -> _Call:
    handed = _here.handed
    kind = handed.popleft() if handed else saving.kind
    return _Call(saving, kind, time.monotonic(), background=handed is not None)


def _stop_before(call: _Call, saving: SaveFunction) -> None:
    """Stop at the first point of the save, where the fault's exception, if it has one, is the program's."""
    if not saving.enters or call.entered:
        return
    call.entered = True
    for listener in _before:
        listener(call.path, call.saving.restores)
    stop = _stops.get("before_restore" if saving.restores else "before_save")
    if stop is not None:
        stop()


def _stop_after(call: _Call, saving: SaveFunction) -> None:
    if saving.leaves and call.leaving == 1 and call.entered and (stop := _stops.get("after_save")) is not None:
        stop()


def _leave(call: _Call, saving: SaveFunction, value: Any, error: BaseException | None) -> None:
    call.depth -= 1
    call.leaving -= saving.leaves
    if call.depth > 0:
        return
    _here.call = None
    at = time.monotonic()
    if error is not None and not call.told:
        _tell(call, lambda: _begun_message(call))
    if call.told:
        if isinstance(value, str) and not call.saving.restores:
            call.path = value
        for listener in _listeners:
            listener(call.path, call.saving.restores)
        _tell(call, lambda: _ended_message(call, error, at))


def _tell(call: _Call, message: Callable[[], control.FromTask]) -> None:
    call.told = True
    try:
        if (own := attach()) is not None:
            said = message()
            with contextlib.suppress(OSError):  # the run is over, or knows a later incarnation
                own.send(said)
    except Exception as error:  # noqa: BLE001 - see the head of this module
        _complain(error)


def _begun_message(call: _Call) -> control.SaveBegun:
    return control.SaveBegun(
        number=call.number,
        kind=call.kind,
        restores=call.saving.restores,
        path=_shown(call.path),
        background=call.background,
        at=call.began,
        state=None if call.saving.restores else digest(),
    )


def _ended_message(call: _Call, error: BaseException | None, at: float) -> control.SaveEnded:
    written = error is None and not call.saving.restores and not call.handed_over
    return control.SaveEnded(
        number=call.number,
        path=_shown(call.path),
        bytes=_size(call.path) if written else None,
        failed=None if error is None else type(error).__name__,
        handed_over=call.handed_over,
        at=at,
    )


def _in_task() -> bool:
    if current() is None and AGENT_VARIABLE not in os.environ:
        return False
    own = attach()
    return own is not None and own.pid == os.getpid()  # a process that the program has forked is not the task


def _traced() -> bool:
    """Whether this is the tracing of a tf.function: what is saved then is saved by an op, each time that it runs."""
    ops = sys.modules.get("tensorflow.python.framework.ops")
    return ops is not None and hasattr(ops, "inside_function") and bool(ops.inside_function())


def _shown(path: Any) -> str | None:
    """The path as the journal has it: from the working directory, if it is below that."""
    if path is None:
        return None
    if not isinstance(path, (str, bytes, os.PathLike)):
        return f"<{type(path).__name__}>"  # an open file, or a tensor
    text, here = os.fsdecode(path), os.getcwd()  # noqa: PTH109 - as text
    below = os.path.isabs(text) and os.path.commonpath([here, text]) == here  # noqa: PTH117 - the same
    return os.path.relpath(text, here) if below else text


def _size(path: Any) -> int | None:
    """Bytes of the files of a local checkpoint, file or SavedModel; None if there are none."""
    if not isinstance(path, (str, bytes, os.PathLike)) or "://" in os.fsdecode(path):
        return None
    place = Path(os.fsdecode(path))
    try:
        if place.is_dir():
            return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        if place.is_file():
            return place.stat().st_size
        parts = (f"{place.name}.data-", f"{place.name}.index")
        found = [file.stat().st_size for file in os.scandir(place.parent) if file.name.startswith(parts)]
    except OSError:
        return None  # somebody else has moved them
    return sum(found) if found else None


def _complain(error: Exception) -> None:
    text = f"lockstep: a save of this program cannot be recorded: {type(error).__name__}: {error}\n"
    if text not in _said:
        _said.append(text)
        with contextlib.suppress(Exception):  # the program may have closed it
            sys.stderr.write(text)
