"""What leaves `ReplicaContext.all_reduce`, by which Keras's optimizers and most custom loops reduce gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched
from harness.recording.witness._values import dense, is_small
from harness.recording.witness.protocol import Event, Gathered, replica_number

__all__ = ["active"]


@contextlib.contextmanager
def active(gathered: Gathered) -> Iterator[None]:
    """See what the first local replica gets of every reduction of floating numbers in this context."""
    from tensorflow.python.distribute import distribute_lib

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def all_reduce(context: Any, *args: Any, **options: Any) -> Any:
            found = original(context, *args, **options)
            with gathered.looking("what is reduced"):
                _see(gathered, found)
            return found

        return all_reduce

    with patched(distribute_lib.ReplicaContext, "all_reduce", around):
        yield


def _see(gathered: Gathered, found: Any) -> None:
    import tensorflow as tf

    replica = replica_number(gathered)
    if replica is None or replica % gathered.local_replicas or not gathered.tapes:
        return
    values = [dense(value) for value in tf.nest.flatten(found)]
    kept = [value for value in values if value is not None and value.dtype.is_floating]
    if len(kept) < len(values) or not is_small(kept):
        return
    site = gathered.site()

    def take(arrays: list[Any]) -> None:
        if gathered.in_full:
            gathered.take(Event("reduced", replica, site, tuple(range(len(arrays))), tuple(arrays)))

    gathered.deliver(kept, take)
