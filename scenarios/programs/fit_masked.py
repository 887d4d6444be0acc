"""`Model.fit` on examples of which a mask hides some, as padding is hidden."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from scenarios.programs import models

_BATCH = 12


def make(flavour: models.Flavour, *, hidden: int) -> Callable[[Any, Any], None]:
    """Trains one weight for four batches of 12, of each of which the first `hidden` examples are padding."""
    return functools.partial(_train, flavour=flavour, hidden=hidden)


def _train(strategy: Any, record: Any, *, flavour: models.Flavour, hidden: int) -> None:
    import numpy as np
    import tensorflow as tf

    keras = models.keras_module(flavour)
    with strategy.scope():
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        model = keras.Sequential([keras.Input((1,)), keras.layers.Masking(0.0), dense])
        model.compile(optimizer=keras.optimizers.SGD(0.125), loss="mse")
    x = np.random.default_rng(0).uniform(0.5, 1.5, (4 * _BATCH, 1)).astype(np.float32)
    x[np.arange(len(x)) % _BATCH < hidden] = 0
    data = tf.data.Dataset.from_tensor_slices((x, x**2)).batch(_BATCH, drop_remainder=True)
    model.fit(data, epochs=1, verbose=0, callbacks=[record.keras_callback(model)])
