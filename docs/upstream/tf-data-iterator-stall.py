"""The end of a tf.data iterator waits for up to as long as it was used, at most a minute: a cancellation is lost."""

import time

import tensorflow as tf


def end_of_an_iterator(seconds: float) -> float:
    data = tf.data.Dataset.range(1 << 40).map(lambda x: x + 1, num_parallel_calls=tf.data.AUTOTUNE)
    iterator, begun = iter(data), time.monotonic()
    while time.monotonic() < begun + seconds:
        next(iterator)
    ended = time.monotonic()
    del iterator
    return time.monotonic() - ended


ends = [end_of_an_iterator(seconds=1.0) for _ in range(40)]
waits = [end for end in ends if end > 0.2]
which = f"{len(waits)} of {len(ends)} iterators have waited at their end, for up to {max(ends):.2f} s"
print("wrong:" if waits else "as it should be:", which)
print("right: none waits; with options.autotune.enabled = False none does")
