"""What is given to replicas: the examples that `Strategy.run` is called with, before it distributes them.

Examples are what comes from outside of the step: from an iterator, or as an argument of the function that is called.
What the step has computed itself, such as gradients that it hands to a second `Strategy.run`, is none, and what it was
built with is not either. A number without rows, such as a rate, is computed by whoever judges the step, unless
each replica has got one of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched
from harness.recording.witness._origins import comes_from_outside, has_rows
from harness.recording.witness._runs import ReplicaCalls
from harness.recording.witness._step_events import InRun
from harness.recording.witness.protocol import WitnessState

__all__ = ["INSIDE", "active"]

INSIDE = True
"""Other seams look at what the program itself gives."""


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Tell `gathered.steps` what every `Strategy.run` in this context is called with."""
    from tensorflow.python.distribute import distribute_lib

    runs = ReplicaCalls()

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
    leaves = {
        number: parts
        for number, parts in enumerate(local)
        if parts and all(comes_from_outside(gathered.computed, part) for part in parts)
    }
    if not leaves:
        return arguments
    with gathered.silent(), record.stop_recording():
        found = steps.given(run, leaves)
    if found is None:
        return arguments
    for place, value in zip(leaves, found, strict=True):
        flat[place] = value
    return tf.nest.pack_sequence_as(arguments, flat)
