"""The numbers that a step is given besides its examples: a rate, a seed, noise, or how many steps there have been."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from harness.evidence.trace import ArgumentSeen, Array
from harness.recording.layouts import is_laid_out
from harness.recording.watch.places import Places
from harness.recording.witness._step_events import Event

if TYPE_CHECKING:
    from harness.recording.witness.protocol import WitnessState

_EVENT = "argument"
"""The kind of the event: its names are that of the argument and the line of the call."""

_ELEMENTS_MAX = 16
"""Larger ones are examples, or what belongs to them."""


def see_arguments(
    gathered: WitnessState, places: Places, function: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """Keep what an outermost call is given, if it is a step of which numbers are kept.

    Args:
        gathered: what the seams have seen.
        places: tell the line.
        function: that the program has written.
        args: that it gets.
        options: those by name.
    """
    import numpy as np

    if not gathered.in_full or not gathered.sees():
        return
    for name, value in _named(function, args, options):
        if (number := _as_number(value)) is not None:
            taken = (np.array(number),)
            gathered.take(Event(_EVENT, 0, 0, (name, places.line() or ""), taken))


def arguments_of(events: list[Event]) -> tuple[ArgumentSeen, ...]:
    """What a step was given, in the order of its arguments."""
    given = (each for each in events if each.kind == _EVENT)
    return tuple(ArgumentSeen(each.names[0], each.names[1], Array.of(each.arrays[0])) for each in given)


def _named(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """All that an argument holds, as its function calls it, with its number if it holds several."""
    import tensorflow as tf
    from tensorflow.python.util import tf_decorator

    _, inner = tf_decorator.unwrap(getattr(function, "python_function", function))
    try:
        signature = inspect.signature(inner)
        own = [each for each in signature.parameters.values() if each.name != "self"]
        given: dict[str, Any] = dict(signature.replace(parameters=own).bind(*args, **options).arguments)
    except (TypeError, ValueError):
        given = {f"argument {place}": each for place, each in enumerate(args, start=1)} | options
    for name, value in given.items():
        parts = tf.nest.flatten(value)
        for place, each in enumerate(parts):
            yield (name if len(parts) == 1 else f"{name}[{place}]"), each


def _as_number(value: Any) -> Any:
    """The same as an array; None if it is no number, or more than a few."""
    import numpy as np
    import tensorflow as tf

    if isinstance(value, tf.Tensor):
        is_number = value.dtype.is_floating or value.dtype.is_integer or value.dtype.is_bool
        few = not tf.is_symbolic_tensor(value) and (value.shape.num_elements() or 0) <= _ELEMENTS_MAX
        return value.numpy() if is_number and few and not is_laid_out(value) else None
    if not isinstance(value, (bool, int, float, np.number, np.ndarray)):
        return None
    array = np.asarray(value)
    return array if array.size <= _ELEMENTS_MAX and array.dtype.kind in "biuf" else None
