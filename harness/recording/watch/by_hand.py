"""Watches what the program's own Python binds, line by line, where no operation of a step can be watched.

Under DTensor an operation means the whole tensor, so that a mistake stands in what a program makes of the parts: in
Python, outside of graphs.
"""

from __future__ import annotations

import contextlib
import itertools
import linecache
import math
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from harness.evidence.arrays import Array
from harness.evidence.bindings import ARGUMENT, CONSTANT, ENTRY, GRAPH, NAME, RETURN, Bindings, Bound, write_bindings
from harness.evidence.watched_step import Frame
from harness.recording.layouts import is_laid_out, shards_by_device
from harness.recording.patches import patched
from harness.recording.watch._watch import WatchDone, WatchOrder
from harness.recording.watch.places import Places

_ENTRIES = ("pack", "copy_to_mesh", "relayout")
_LEAVES_MAX = 64
_ELEMENTS_MAX = 65_536
_BOUND_MAX = 20_000

_Known = dict[str, tuple[int, list[tuple[int, int]]]]


class ByHand:
    """Watches the Python of one client until a step ends; in place of `Watch`.

    Args:
        watching: up to which step, and where it goes.
        task: whose Python it is.
    """

    def __init__(self, watching: WatchOrder, task: str) -> None:
        self._watching = watching
        self._task = task
        self._places = Places()
        self._frames: dict[Frame, int] = {}
        self._bound: list[Bound] = []
        self._calls: dict[int, int] = {}
        self._numbers = itertools.count(1)
        self._steps = 0
        self._quiet = 0
        self._done = False

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Watch what the program does in this context; ends it quietly when its step is over."""
        from tensorflow.experimental import dtensor
        from tensorflow.python.eager.polymorphic_function import polymorphic_function
        from tensorflow.python.framework import op_callbacks

        before = sys.gettrace()
        with contextlib.ExitStack() as stack:
            op_callbacks.add_op_callback(self._built)
            stack.callback(op_callbacks.remove_op_callback, self._built)
            for name in _ENTRIES:
                stack.enter_context(patched(dtensor, name, self._entering(name)))
            stack.enter_context(patched(polymorphic_function.Function, "__call__", self._entering(GRAPH)))
            sys.settrace(self._called)
            try:
                yield
            except WatchDone:
                pass
            finally:
                sys.settrace(before)
                if not self._done:
                    self._write()

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """What the harness itself does in this context is not the program's."""
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1

    @property
    def reports(self) -> bool:
        """As of the order."""
        return self._watching.reports

    def after_step(self, step: int) -> None:
        """Hear that a step has been reported, and end the program if it was the last one that is watched.

        Raises:
            WatchDone: there is nothing more to see.
        """
        if step == self._watching.step and not self._watching.last:
            self._write()
            raise WatchDone
        self._steps = step

    def _write(self) -> None:
        self._done = True
        write_bindings(
            Path(self._watching.path) / f"{self._task.replace(':', '-')}.watched",
            Bindings(self._task, tuple(self._frames), tuple(self._bound), len(self._bound) < _BOUND_MAX),
        )

    def _built(self, kind: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None) -> None:
        """Note a number that is built into a graph; called by TensorFlow."""
        import tensorflow as tf

        if graph is None or kind not in {"Const", b"Const"} or self._done or self._quiet:
            return
        value = tf.get_static_value(outputs[0])
        if value is None or value.size != 1 or (caller := self._places.here().caller) is None:
            return
        line = self._frames.setdefault(self._places.frames[caller], len(self._frames))
        self._bound.append(Bound(CONSTANT, "", (line,), self._steps + 1, 0, 0, (Array.of(value),)))

    # ------------------------------------------------------------------ Python

    def _called(self, frame: FrameType, event: str, value: Any) -> Callable[..., Any] | None:
        """Begin to watch a function of the program's own; called by Python."""
        import tensorflow as tf

        if self._done or self._quiet or event != "call" or not self._is_own(frame) or not tf.executing_eagerly():
            return None
        self._calls[id(frame)] = next(self._numbers)
        known: _Known = {}
        at = plain = frame.f_lineno
        with contextlib.suppress(Exception):  # whatever a value is, the program goes on
            self._changed(frame, known, ARGUMENT, at)

        def trace(frame: FrameType, event: str, value: Any) -> Callable[..., Any] | None:
            nonlocal at, plain
            if self._done or event not in {"line", "return"}:
                return trace
            with contextlib.suppress(Exception):
                self._changed(frame, known, NAME, at)
            at = frame.f_lineno
            plain = plain if self._is_with(frame) else at
            if event == "return":
                with contextlib.suppress(Exception):
                    self._note(RETURN, "", frame, plain, value)
                self._calls.pop(id(frame), None)
            return trace

        return trace

    def _is_own(self, frame: FrameType) -> bool:
        file = frame.f_code.co_filename
        return self._places.is_own(file) and not self._places.is_installed(file)

    def _is_with(self, frame: FrameType) -> bool:
        """Whether this is the head of a `with`, to which Python comes back when its body returns."""
        return linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith(("with ", "async with "))

    def _changed(self, frame: FrameType, known: _Known, kind: str, line: int) -> None:
        for name, value in _items(frame.f_locals):
            if not (leaves := _leaves(value)):
                known.pop(name, None)
                continue
            signs = [_sign(leaf) for leaf in leaves]
            before = known.get(name)
            if before == (id(value), signs):
                continue
            known[name] = id(value), signs
            added = before is not None and before[0] == id(value) and before[1] == signs[: len(before[1])]
            self._note(kind, name, frame, line, leaves[len(before[1]) :] if added and before else value)

    def _note(self, kind: str, name: str, frame: FrameType, line: int, value: Any) -> None:
        leaves = _leaves(value)
        if not leaves or self._quiet or len(self._bound) >= _BOUND_MAX:
            return
        stack = self._stack(frame, line)
        within = next((self._calls[id(each)] for each in _outer(frame) if id(each) in self._calls), 0)
        about = self._steps + 1, self._calls.get(id(frame), 0), within
        if not any(map(is_laid_out, leaves)):
            self._bound.append(_read(leaves, kind, name, stack, *about))
            return
        for number, leaf in enumerate(leaves):
            where = name if leaf is value else f"{name}[{number}]"
            self._bound.append(_read([leaf], kind, where, stack, *about))

    def _stack(self, frame: FrameType, line: int) -> tuple[int, ...]:
        """The program's own lines that lead to a line of this function, outermost first."""
        own = list(filter(self._is_own, _outer(frame)))
        places = [(frame, line), *((each, each.f_lineno) for each in own)]
        found = [Frame(each.f_code.co_filename, at, each.f_code.co_name, own=True) for each, at in reversed(places)]
        return tuple(self._frames.setdefault(each, len(self._frames)) for each in found)

    def _entering(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Around a function that gives tensors on a mesh: what it gives, at the line that calls it."""
        import tensorflow as tf

        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def enter(*args: Any, **options: Any) -> Any:
                found = original(*args, **options)
                outer = _outer(sys._getframe())  # noqa: SLF001 - documented so
                caller = next((each for each in outer if id(each) in self._calls), None)
                if caller is not None and tf.executing_eagerly():
                    self._note(ENTRY, name, caller, caller.f_lineno, found)
                return found

            return enter

        return around


def _outer(frame: FrameType) -> Iterator[FrameType]:
    while (back := frame.f_back) is not None:
        yield back
        frame = back


def _items(values: dict[Any, Any], within: str = "{}") -> Iterator[tuple[str, Any]]:
    """What names are bound to, of a dictionary of names each entry by itself: each may be a list that grows."""
    for key, value in list(values.items()):
        name = within.format(key)
        named = type(value) is dict and len(value) <= _LEAVES_MAX and all(type(each) is str for each in value)
        if named and within == "{}":
            yield from _items(value, f"{name}[{{}}]")
        else:
            yield name, value


def _leaves(value: Any, depth: int = 3) -> list[Any]:
    """The numbers in a value or in a container of such; none where it holds none, or too many."""
    import numpy as np
    from tensorflow.python.framework import ops

    if isinstance(value, (float, np.ndarray, np.number, ops.EagerTensor)):
        name = getattr(value, "dtype", np.dtype(float)).name
        return [value] if name.startswith(("float", "bfloat", "complex", "int", "uint")) else []
    if isinstance(value, dict):
        value = list(value.values())
    if not depth or type(value) not in {list, tuple} or len(value) > _LEAVES_MAX:
        return []
    found = [leaf for each in value for leaf in _leaves(each, depth - 1)]
    return found if len(found) <= _LEAVES_MAX else []


def _sign(leaf: Any) -> tuple[int, int]:
    """What tells a value from the one that a name had before; a NumPy array may be changed where it is."""
    import numpy as np

    return id(leaf), zlib.crc32(leaf.tobytes()) if isinstance(leaf, np.ndarray) else 0


def _read(leaves: list[Any], kind: str, name: str, lines: tuple[int, ...], step: int, call: int, within: int) -> Bound:
    parts: list[Array] = []
    shards: list[tuple[int, ...]] = []
    hidden = any(math.prod(getattr(leaf, "shape", ())) > _ELEMENTS_MAX for leaf in leaves)
    try:
        for leaf in () if hidden else leaves:
            if is_laid_out(leaf):
                for shard, part in shards_by_device(leaf):
                    shards.append(shard)
                    parts.append(Array.of(part))
            else:
                parts.append(Array.of(leaf.numpy() if hasattr(leaf, "numpy") else leaf))
    except Exception:  # noqa: BLE001 - whatever the program has made there, it goes on
        hidden, parts, shards = True, [], []
    return Bound(kind, name, lines, step, call, within, tuple(parts), tuple(shards), hidden)
