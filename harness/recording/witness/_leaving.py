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
    """Tensors of one graph, and who gets the values of which."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.tensors: list[Any] = []
        self._takers: list[tuple[int, Take]] = []

    def add(self, tensors: Sequence[Any], take: Take) -> None:
        """Hand the values of these over to a taker of their own."""
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


def emit(tensors: Sequence[Any], take: Take) -> None:
    """Call `take` with the values of these tensors each time that the graph is run which is being built."""
    import tensorflow as tf

    joined: dict[Any, list[int]] = {}
    single = []
    for place, tensor in enumerate(tensors):
        if tensor.shape.is_fully_defined() and tensor.dtype not in (tf.resource, tf.variant):
            joined.setdefault(tensor.dtype, []).append(place)
        else:
            single.append(place)
    groups = [_Joined(places, [tuple(tensors[place].shape) for place in places]) for places in joined.values()]

    def called(*values: Any) -> None:
        found: list[Any] = [None] * len(tensors)
        for group, value in zip(groups, values, strict=False):
            group.put(value, found)
        for place, value in zip(single, values[len(groups) :], strict=True):
            found[place] = value
        take(found)

    with tf.device("/cpu:0"):
        flat = [tf.concat([tf.reshape(tensors[place], [-1]) for place in group.places], 0) for group in groups]
        tf.numpy_function(called, [*flat, *(tensors[place] for place in single)], [], stateful=True)
