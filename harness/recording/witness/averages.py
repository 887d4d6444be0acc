"""Losses that replicas average over the global batch: how large they say it is, and how many losses there are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from harness.recording.patches import patched
from harness.recording.watch.places import Places
from harness.recording.witness._replica import replica_number
from harness.recording.witness.protocol import Gathered

__all__ = ["active"]


@contextlib.contextmanager
def active(gathered: Gathered) -> Iterator[None]:
    """Note in `gathered.noted` what `tf.nn.compute_average_loss` is told in this context."""
    import tensorflow as tf

    places = Places()

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def average(
            per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None, **options: Any
        ) -> Any:
            if global_batch_size is not None and (replica := replica_number(gathered)) is not None:
                with gathered.looking("averages"):
                    _see(gathered, replica, places.line(), per_example_loss, tf.get_static_value(global_batch_size))
            return original(per_example_loss, sample_weight, global_batch_size, **options)

        return average

    with patched(tf.nn, "compute_average_loss", around):
        yield


def _see(gathered: Gathered, replica: int, line: str | None, losses: Any, batch: Any) -> None:
    import tensorflow as tf

    losses = tf.convert_to_tensor(losses)
    if line is None or batch is None or losses.shape.rank != 1:
        return
    size = int(batch)

    def take(counts: Sequence[Any]) -> None:
        number = gathered.number
        step, given = gathered.noted.averages.setdefault((line, size), (number, {}))
        if step == number:  # in slices each is averaged by itself
            given[replica] = max(given.get(replica, 0), int(counts[0]))

    gathered.deliver([tf.size(losses)], take)
