"""What replicas tell TensorFlow of the global batch when they average their losses.

Nothing is asked of the losses themselves: who looks at a tensor in a graph keeps TensorFlow from using its memory
again, and so hides what goes wrong by that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched
from harness.recording.watch.places import Places
from harness.recording.witness._replica import replica_number
from harness.recording.witness.protocol import WitnessState


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Note in `gathered.noted` what `tf.nn.compute_average_loss` is told in this context."""
    import tensorflow as tf

    places = Places()

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def average(
            per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None, **options: Any
        ) -> Any:
            if global_batch_size is not None and replica_number(gathered) is not None:
                with gathered.looking("averages"):
                    batch, line = tf.get_static_value(global_batch_size), places.line()
                    if batch is not None and line is not None:
                        gathered.noted.averages.setdefault((line, int(batch)), gathered.number)
            return original(per_example_loss, sample_weight, global_batch_size, **options)

        return average

    with patched(tf.nn, "compute_average_loss", around):
        yield
