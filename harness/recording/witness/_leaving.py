"""How values leave a graph: by one op that calls Python, which takes about as long for a large tensor as for a small.

So the tensors of a step go through it joined, one for each dtype, and are taken apart in Python.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Batch", "emit"]

Take = Callable[[Sequence[Any]], None]


class Batch:
    """Tensors of one graph, and who gets the values of which.

    Args:
        graph: in which they are.
        full: whether numbers are wanted of the step that is being made. Of most steps they are not, and then they stay
            where they are.
    """

    def __init__(self, graph: Any, full: Callable[[], bool]) -> None:
        self.graph = graph
        self._full = full
        self._always, self._numbers = _Taken(), _Taken()

    def add(self, tensors: Sequence[Any], take: Take, *, numbers: bool) -> None:
        """Hand the values of these over to a taker of their own; of `numbers` only where they are wanted."""
        (self._numbers if numbers else self._always).add(tensors, take)

    def leave(self) -> None:
        """Build what hands them over."""
        import tensorflow as tf

        always, numbers = self._always, self._numbers
        if not numbers.tensors:
            if always.tensors:
                emit(always.tensors, always.take)
            return
        full = emit(always.tensors, always.take, asked=self._full)

        def handed_over() -> Any:
            emit(numbers.tensors, numbers.take)
            return tf.constant(True)

        tf.cond(full, handed_over, lambda: tf.constant(False))

    def leave_by(self, emit: Callable[[Sequence[Any], Take], None]) -> None:
        """Have all of them handed over by something else, at every step."""
        every = _Taken()
        for some in (self._always, self._numbers):
            if some.tensors:
                every.add(some.tensors, some.take)
        if every.tensors:
            emit(every.tensors, every.take)


class _Taken:
    """Tensors, and takers of consecutive ones."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self._takers: list[tuple[int, Take]] = []

    def add(self, tensors: Sequence[Any], take: Take) -> None:
        self.tensors += tensors
        self._takers.append((len(tensors), take))

    def take(self, values: Sequence[Any]) -> None:
        """The values of all tensors, in their order."""
        begin = 0
        for count, take in self._takers:
            take(values[begin : begin + count])
            begin += count


class _Joined:
    """Tensors of one dtype and of known shapes, one after another: where each begins is found once, not each time."""

    def __init__(self, places: list[int], shapes: list[tuple[int, ...]]) -> None:
        self.places = places
        ends = list(itertools.accumulate(math.prod(shape) for shape in shapes))
        self._parts = list(zip(places, [0, *ends[:-1]], ends, shapes, strict=True))

    def put(self, values: Any, into: list[Any]) -> None:
        """Each tensor's value to its place."""
        for place, begin, end, shape in self._parts:
            into[place] = values[begin:end].reshape(shape)


def emit(tensors: Sequence[Any], take: Take, *, asked: Callable[[], bool] | None = None) -> Any:
    """Call `take` with the values of these tensors each time that the graph is run which is being built.

    Returns:
        What `asked` says then, a bool of no dimensions; None without it.
    """
    import numpy as np
    import tensorflow as tf

    joined: dict[Any, list[int]] = {}
    single = []
    for place, tensor in enumerate(tensors):
        if tensor.shape.is_fully_defined() and tensor.dtype not in (tf.resource, tf.variant):
            joined.setdefault(tensor.dtype, []).append(place)
        else:
            single.append(place)
    groups = [_Joined(places, [tuple(tensors[place].shape) for place in places]) for places in joined.values()]

    def called(*values: Any) -> Any:
        found: list[Any] = [None] * len(tensors)
        for group, value in zip(groups, values, strict=False):
            group.put(value, found)
        for place, value in zip(single, values[len(groups) :], strict=True):
            found[place] = value
        take(found)
        return [] if asked is None else np.bool_(asked())

    with tf.device("/cpu:0"):
        flat = [tf.concat([tf.reshape(tensors[place], [-1]) for place in group.places], 0) for group in groups]
        given = [*flat, *(tensors[place] for place in single)]
        answer = tf.numpy_function(called, given, [] if asked is None else tf.bool, stateful=True)
        if asked is not None:
            answer.set_shape(())
    return answer
