"""Epochs of the same NumPy arrays, which a generator yields as they are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np

Loop = Literal["plain_loop", "keras3_fit"]
_BATCH = 16
_BATCHES = 18
_EPOCHS = 5
"""Whether one array is written over before it is read again is a race, which each wins about as often as not: of six
none was, once.
"""
_ALIGNED = 64
"""Of what begins at no multiple of so many bytes TensorFlow makes a copy."""


def make(loop: Loop, *, copied: bool = False) -> Callable[[Any, Any], None]:
    """Trains one weight vector on batches of 16, again and again; `copied` arrays are nobody else's."""
    return functools.partial({"plain_loop": _loop, "keras3_fit": _fit}[loop], copied=copied)


def _aligned(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    memory = np.zeros(values.size + _ALIGNED, np.float32)
    start = -memory.ctypes.data % _ALIGNED // memory.itemsize
    array = memory[start : start + values.size].reshape(values.shape)
    array[...] = values
    return array


def _data(copied: bool) -> Any:
    """Batches whose parts for two, three or four replicas begin, but for the first, where TensorFlow makes a copy."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x, y = (_aligned(rng.normal(size=(_BATCHES * _BATCH, columns)).astype(np.float32)) for columns in (4, 1))

    def batches() -> Iterator[tuple[Any, Any]]:
        for start in range(0, len(x), _BATCH):
            batch = x[start : start + _BATCH], y[start : start + _BATCH]
            yield tuple(each.copy() for each in batch) if copied else batch  # type: ignore[misc]

    spec = (tf.TensorSpec([_BATCH, 4]), tf.TensorSpec([_BATCH, 1]))
    dataset = tf.data.Dataset.from_generator(batches, output_signature=spec)
    # What `fit` makes of data of unknown length is another matter: keras3-fit-unknown-length.
    return dataset.apply(tf.data.experimental.assert_cardinality(_BATCHES))


def _loop(strategy: Any, record: Any, *, copied: bool) -> None:
    import tensorflow as tf

    data = strategy.experimental_distribute_dataset(_data(copied))
    with strategy.scope():
        w = tf.Variable(tf.zeros([4, 1]), aggregation=tf.VariableAggregation.SUM)

    def replica(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((y - x @ w) ** 2) / _BATCH
        w.assign_sub(0.125 * tape.gradient(loss, w))
        return loss

    @tf.function
    def step(iterator: Any) -> Any:
        return strategy.run(replica, args=next(iterator))

    for _ in range(_EPOCHS):
        iterator = iter(data)
        for _ in range(_BATCHES):
            record.step(loss=step(iterator), variables=[w])
        del iterator


def _fit(strategy: Any, record: Any, *, copied: bool) -> None:
    import keras

    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.125), "mse")
    model.fit(_data(copied), epochs=_EPOCHS, verbose=0, callbacks=[record.keras_callback(model)])
