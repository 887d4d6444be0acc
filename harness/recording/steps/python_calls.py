"""Python that a replica's graph calls: does it draw, or compute?

What it draws is the run's, as any draw. What it computes from its arguments is judged like any other computing, so that
a mean over one replica's rows by NumPy is seen to be one. Nobody can read that in Python: it is called again.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import random
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from harness.recording.noise.protocol import eps_of
from harness.recording.steps.python_rows import depends_on_others
from harness.recording.steps.row_joins import NotJoinable, Parts, joined_draw, rows_axis
from harness.recording.watch.places import BY_PYTHON

PYTHON = "PyFunction"

_CALLS = 8
"""A coin may fall alike that often, and is taken for a computed value by chance of 1 in 256."""

_EPS_MAX = 100
"""What it computes may differ by so many eps of the largest number: rounding, and the noise that shows what it does."""


class PythonCall:
    """A call of the program's own function.

    Args:
        function: which takes and gives arrays, or tensors if it is eager.
        is_eager: whether it is a `tf.py_function`, which has gradients.
        inputs: its arguments, as tensors; None if they are more than tensors, so that it cannot be called here.

    Attributes:
        has_gradients: whether gradients were taken through it.
        keeps_state: whether what it draws follows from more than its arguments and random generators, such as a state.
        mixes_rows: whether what it draws for an example depends on the examples beside it.
    """

    def __init__(self, function: Callable[..., Any], *, is_eager: bool, inputs: Sequence[Any] | None) -> None:
        self._function = function
        self._is_eager = is_eager
        self.inputs = tuple(inputs or ())
        self.has_gradients = False
        self.keeps_state = False
        self.mixes_rows = False
        self._calls = _CALLS if inputs is not None else 0
        self._drawn: set[int] | None = None if inputs is None else set()

    def draws(self, own: Sequence[Any], parts: Sequence[Parts], arguments: Sequence[Any]) -> list[bool]:
        """Which of its results are no function of its arguments; none that is in the run as it is here.

        Args:
            own: what it gave here, arrays.
            parts: what it gave on each replica of the run.
            arguments: those that it had here, arrays.
        """
        if self._drawn is None:
            return [True] * len(own)
        others = {number for number, value in enumerate(own) if not _is_joined(number, value, parts)}
        if self._calls and others - self._drawn:
            restore = _generators_saved(self._function)  # from which the program may draw elsewhere
            known = len(self._drawn)
            self._look(own, others, arguments)
            if not known and not self.keeps_state:
                self.mixes_rows = self._mixes_rows(own, parts, arguments)
            restore()
        return [number in others & self._drawn for number in range(len(own))]

    def _look(self, own: Sequence[Any], others: set[int], arguments: Sequence[Any]) -> None:
        """Call it again until it is known of all of these, or for as often as it is called at all."""
        assert self._drawn is not None
        while self._calls and others - self._drawn:
            self._calls -= 1
            drawn, self._drawn = self._drawn, self._drawn | self._differing(own, arguments)
            if not drawn and self._drawn:
                self.keeps_state = self._differs_by_state(arguments)

    def _differing(self, own: Sequence[Any], arguments: Sequence[Any]) -> set[int]:
        """Which of its results are other ones when it is called again."""
        every = set(range(len(own)))
        found = self._called(arguments)
        if found is None or len(found) != len(own):
            return every
        return {number for number in every if not _is_near(own[number], found[number])}

    def _differs_by_state(self, arguments: Sequence[Any]) -> bool:
        """Whether it gives something else twice with the same arguments and the same random generators."""
        restore = _generators_saved(self._function)
        one = self._called(arguments)
        restore()
        other = self._called(arguments)
        if one is None or other is None or len(one) != len(other):
            return True
        return not all(map(_is_near, one, other))

    def _mixes_rows(self, own: Sequence[Any], parts: Sequence[Parts], arguments: Sequence[Any]) -> bool:
        """Whether a drawn result depends on the rows that are beside its own."""
        assert self._drawn is not None
        for number in self._drawn:
            shapes = [part[number].shape for part in parts if number < len(part)]
            if own[number].dtype.kind == "f" and rows_axis(own[number].shape, shapes) == 0:
                sizes = [shape[0] for shape in shapes]
                saved = functools.partial(_generators_saved, self._function)
                if depends_on_others(self._called, arguments, sizes, number, saved):
                    return True
        return False

    def _called(self, arguments: Sequence[Any]) -> list[Any] | None:
        """What it gives; None where it raises, as with a state that has come to its end."""
        import numpy as np

        try:
            found = self._function(*(_tensors(arguments) if self._is_eager else arguments))
        except Exception:  # noqa: BLE001 - the program's own
            return None
        return [np.asarray(each) for each in (found if isinstance(found, (list, tuple)) else [found])]


def with_gradients(call: PythonCall, own: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """What was given in place of own tensors, with the gradients of these."""
    import tensorflow as tf

    def back(upstream: Any) -> Any:
        call.has_gradients = True
        return upstream, None

    @tf.custom_gradient
    def passed(value: Any, other: Any) -> Any:
        return tf.identity(other), back

    with tf.name_scope(BY_PYTHON):
        return [
            passed(one, other) if one.dtype.is_floating and other is not one else other
            for one, other in zip(own, given, strict=True)
        ]


def _is_joined(number: int, own: Any, parts: Sequence[Parts]) -> bool:
    """Whether a result in the run, as one replica would have it, is the same here."""
    with contextlib.suppress(NotJoinable, IndexError):  # the run may have called something else here
        return bool(parts) and _is_near(own, joined_draw([part[number] for part in parts], own))
    return False


def _tensors(arrays: Sequence[Any]) -> list[Any]:
    import tensorflow as tf

    return list(map(tf.constant, arrays))


def _is_near(own: Any, other: Any) -> bool:
    import numpy as np

    if own.shape != other.shape:
        return False
    if not (eps := eps_of(own.dtype.name)):
        return bool(np.array_equal(own, other))
    own, other = own.astype(float), other.astype(float)
    scale = float(np.max(np.abs(own), initial=0.0, where=np.isfinite(own)))
    return bool(np.allclose(other, own, rtol=0.0, atol=_EPS_MAX * eps * scale, equal_nan=True))


# ---------------------------------------------------------------------- generators that a function may use


_OBJECTS_MAX = 1000
_DEPTH_MAX = 4


def _generators_saved(function: Callable[..., Any]) -> Callable[[], None]:
    """Note the state of all of them; what is returned sets them back to it."""
    import numpy as np

    saved: list[tuple[Callable[[Any], Any], Any]] = [
        (random.setstate, random.getstate()),
        (np.random.set_state, np.random.get_state(legacy=False)),
    ]
    for each in _reached(function):
        if isinstance(each, np.random.Generator):
            bits = each.bit_generator
            saved.append((functools.partial(setattr, bits, "state"), copy.deepcopy(bits.state)))
        elif isinstance(each, np.random.RandomState):
            saved.append((each.set_state, each.get_state(legacy=False)))
        elif isinstance(each, random.Random):
            saved.append((each.setstate, each.getstate()))

    def restore() -> None:
        for set_state, state in saved:
            set_state(copy.deepcopy(state))

    return restore


def _reached(function: Any) -> Iterator[Any]:
    """What a function refers to, directly or by other functions, attributes and items, as far as that is few."""
    waiting, seen = [(function, 0)], set[int]()
    while waiting and len(seen) < _OBJECTS_MAX:
        each, depth = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if depth < _DEPTH_MAX:
            with contextlib.suppress(Exception):  # the program's own objects may do anything where they are looked at
                waiting += [(inner, depth + 1) for inner in _inner(each)]


def _inner(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return list(value[:_OBJECTS_MAX])
    if isinstance(value, dict):
        return list(value.values())[:_OBJECTS_MAX]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    found = [getattr(value, "__self__", None), getattr(value, "__func__", None)]
    if (code := getattr(value, "__code__", None)) is not None:
        with contextlib.suppress(ValueError):  # a cell is empty until its variable is
            found += [cell.cell_contents for cell in value.__closure__ or ()]
        found += [value.__globals__[name] for name in code.co_names if name in value.__globals__]
        found += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    elif type(value).__module__ not in ("builtins", "numpy"):
        found += list(getattr(value, "__dict__", {}).values())[:_OBJECTS_MAX]
    return [each for each in found if each is not None and not isinstance(each, types.ModuleType)]
