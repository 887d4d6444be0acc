"""What is given to replicas: the examples that `Strategy.run` is called with, before it distributes them.

Examples are what comes from outside of the step: from an iterator, or as an argument of the function that is called.
What the step has computed itself, such as gradients that it hands to a second `Strategy.run`, is none, and what it was
built with is not either. A number without rows, such as a rate, is computed by whoever judges the step, unless
each replica has got one of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched
from harness.recording.steps.replay_values import per_replica
from harness.recording.steps.row_parts import composed, row_parts
from harness.recording.witness._origins import comes_from_outside, has_rows
from harness.recording.witness._step_events import InRun
from harness.recording.witness.protocol import WitnessState

INSIDE = True
"""Other seams look at what the program itself gives."""


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Tell `gathered.steps` what every `Strategy.run` in this context is called with."""
    from tensorflow.python.distribute import distribute_lib

    runs = _ReplicaCalls()

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(strategy: Any, fn: Any, args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
            inner = gathered.steps is None or gathered.in_run is not None or gathered.threads.is_aside
            if inner or not gathered.knows(strategy):
                return original(strategy, fn, args, kwargs, options)
            gathered.enters()
            number = runs.next()
            args, kwargs = _given(gathered, strategy, number, (args, kwargs or {}))
            gathered.in_run = InRun(number)
            try:
                return original(strategy, fn, args, kwargs, options)
            finally:
                gathered.in_run = None

        return run

    with patched(distribute_lib.StrategyBase, "run", around):
        yield


def _given(gathered: WitnessState, strategy: Any, run: int, arguments: Any) -> Any:
    """The arguments, with what is to be given in place of the examples among them."""
    import tensorflow as tf
    from tensorflow.python.eager import record

    steps = gathered.steps
    assert steps is not None
    if not gathered.sees():
        return arguments
    flat = tf.nest.flatten(arguments)
    several = strategy.extended._num_replicas_in_sync > 1  # noqa: SLF001 - the property may stand for a cluster's
    # A number that is the same for all replicas comes from the program.
    told = [has_rows(each) or isinstance(each, tf.distribute.DistributedValues) or not several for each in flat]
    local = [
        strategy.experimental_local_results(each) if wanted else () for each, wanted in zip(flat, told, strict=True)
    ]
    examples = {
        number: batches
        for number, batches in enumerate(local)
        if batches and all(comes_from_outside(gathered.computed, batch) for batch in batches)
    }
    if not examples:
        return arguments
    with gathered.silent(), record.stop_recording():
        found = steps.given(run, {number: list(map(row_parts, batches)) for number, batches in examples.items()})
        for (number, batches), given in zip(examples.items(), found or (), strict=False):
            like = batches if len(batches) == len(given) else batches * len(given)
            values = list(map(composed, like, given))
            flat[number] = values[0] if len(values) == 1 else per_replica(values)
    return tf.nest.pack_sequence_as(arguments, flat)


# Numbers the calls of `Strategy.run` within the outermost call, which is being traced or carried out.


_Call = tuple[tuple[int, ...], int]
"""The functions that are being traced, outermost first, and the number of the call in the innermost trace."""


class _ReplicaCalls:
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
