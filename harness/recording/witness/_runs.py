"""Numbers the calls of `Strategy.run` within the outermost call, which is being traced or carried out."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from typing import Any

__all__ = ["Runs"]


class Runs:
    """Counts anew in each graph that is built, so that each trace of a function numbers its calls alike."""

    def __init__(self) -> None:
        self._counts: weakref.WeakKeyDictionary[Any, Iterator[int]] = weakref.WeakKeyDictionary()

    def next(self) -> int:
        """The number of the call that is being made, from 0. An eager call is the only one of its step."""
        import tensorflow as tf

        if tf.executing_eagerly():
            return 0
        graph = _outermost()
        if graph not in self._counts:
            self._counts[graph] = itertools.count()
        return next(self._counts[graph])


def _outermost() -> Any:
    """The graph of the function that was called from outside of all graphs."""
    from tensorflow.python.framework import ops

    graph = ops.get_default_graph()
    while (outer := getattr(graph, "outer_graph", None)) is not None and getattr(outer, "building_function", False):
        graph = outer
    return graph
