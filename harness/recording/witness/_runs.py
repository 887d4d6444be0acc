"""Numbers the calls of `Strategy.run` within the outermost call, which is being traced or carried out."""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Iterator
from typing import Any

__all__ = ["ReplicaCalls"]

_Call = tuple[tuple[int, ...], int]
"""The functions that are being traced, outermost first, and the number of the call in the innermost trace."""


class ReplicaCalls:
    """Counts anew in each graph that is built, so that each trace of a function numbers its calls alike.

    TensorFlow traces a function again that has made variables, also within the trace of another one.
    """

    def __init__(self) -> None:
        self._inner: weakref.WeakKeyDictionary[Any, Iterator[int]] = weakref.WeakKeyDictionary()
        self._known: weakref.WeakKeyDictionary[Any, dict[_Call, int]] = weakref.WeakKeyDictionary()

    def next(self) -> int:
        """The number of the call that is being made, from 0. An eager call is the only one of its step."""
        import tensorflow as tf
        from tensorflow.python.framework import ops

        if tf.executing_eagerly():
            return 0
        graph = ops.get_default_graph()
        within = next(self._inner.setdefault(graph, itertools.count()))
        known = self._known.setdefault(_outermost(graph), {})
        return known.setdefault((_functions(), within), len(known))


def _functions() -> tuple[int, ...]:
    """What tells the functions apart that are being traced."""
    from tensorflow.python.eager.polymorphic_function import polymorphic_function

    frame, found = sys._getframe(1), list[int]()  # noqa: SLF001 - who calls is all that is to be known
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code is polymorphic_function.Function._call.__code__:  # noqa: SLF001 - no public name
            found.append(id(frame.f_locals["self"]))
    return tuple(reversed(found))


def _outermost(graph: Any) -> Any:
    """The graph of the function that was called from outside of all graphs."""
    while (outer := getattr(graph, "outer_graph", None)) is not None and getattr(outer, "building_function", False):
        graph = outer
    return graph
