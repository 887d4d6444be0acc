"""What leaves a reduction in a step: so gradients come into the optimizers of Keras 3 and tf_keras, and custom updates.

Keras 3 and custom loops reduce by `ReplicaContext.all_reduce`, and tf_keras by `extended.batch_reduce_to` where
replicas merge; the former may lead to the latter.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched
from harness.recording.witness._replica import replica_number
from harness.recording.witness._step_events import Event
from harness.recording.witness._values import dense, within_budget
from harness.recording.witness.protocol import WitnessState


class _Inside:
    """How many replicas are in a reduction that is seen as a whole; they wait there for each other."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        with self._lock:
            self.count += 1
        try:
            yield
        finally:
            with self._lock:
                self.count -= 1


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """See what the first local replica gets of every reduction of floating numbers in this context."""
    from tensorflow.python.distribute import distribute_lib

    inside = _Inside()

    def around_replica(original: Callable[..., Any]) -> Callable[..., Any]:
        def all_reduce(context: Any, reduce_op: Any, *args: Any, **options: Any) -> Any:
            with inside.one():
                found = original(context, reduce_op, *args, **options)
            with gathered.looking("what is reduced"):
                replica = replica_number(gathered)
                if replica is not None and replica % gathered.local_replicas == 0:
                    _see(gathered, reduce_op, found)
            return found

        return all_reduce

    def around_merged(original: Callable[..., Any]) -> Callable[..., Any]:
        def batch_reduce_to(extended: Any, reduce_op: Any, *args: Any, **options: Any) -> Any:
            found = original(extended, reduce_op, *args, **options)
            if not inside.count:
                with gathered.looking("what is reduced"):
                    first = [gathered.strategy.experimental_local_results(each)[0] for each in found]
                    _see(gathered, reduce_op, first)
            return found

        return batch_reduce_to

    with (
        patched(distribute_lib.ReplicaContext, "all_reduce", around_replica),
        patched(distribute_lib.StrategyExtendedV2, "batch_reduce_to", around_merged),
    ):
        yield


def _see(gathered: WitnessState, reduce_op: Any, found: Any) -> None:
    import tensorflow as tf

    if not gathered.tapes:
        return
    values = [value for value in tf.nest.flatten(found) if value.dtype.is_floating]
    # Of slices that are added up nobody may know how large the whole is.
    kept = [whole for value in values if (whole := dense(value)) is not None and whole.shape.is_fully_defined()]
    if not kept or (parts := within_budget(kept)) is None:
        return
    site = gathered.site()
    how = str(getattr(reduce_op, "value", reduce_op)).upper()

    def take(arrays: list[Any]) -> None:
        gathered.take(Event("reduced", 0, site, (how,) * len(arrays), tuple(arrays)))

    gathered.deliver(parts, take)
