"""Without autotuning the end of an iterator waits for no thread that tunes it."""

import time

import tensorflow as tf


def end_of_an_iterator(seconds: float) -> float:
    data = tf.data.Dataset.range(1 << 40).map(lambda x: x + 1, num_parallel_calls=tf.data.AUTOTUNE)
    options = tf.data.Options()
    options.autotune.enabled = False
    iterator, begun = iter(data.with_options(options)), time.monotonic()
    while time.monotonic() < begun + seconds:
        next(iterator)
    ended = time.monotonic()
    del iterator
    return time.monotonic() - ended


ends = [end_of_an_iterator(seconds=1.0) for _ in range(40)]
waits = [end for end in ends if end > 0.2]
which = f"{len(waits)} of {len(ends)} iterators have waited at their end, for up to {max(ends):.2f} s"
print("wrong:" if waits else "as it should be:", which)
