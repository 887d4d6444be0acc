"""`Model.fit` on data whose length nobody knows before its end, as behind `Dataset.filter`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from scenarios.programs import models

_BATCH = 12
_STEPS = 4
_EPOCHS = 3


def make(flavour: models.Flavour, *, known: bool = False) -> Callable[[Any, Any], None]:
    """Trains for three epochs of four batches, and holds what the optimizer counts against that.

    Raises:
        AssertionError: it counts something else.
    """
    return functools.partial(_train, flavour=flavour, known=known)


def _train(strategy: Any, record: Any, *, flavour: models.Flavour, known: bool) -> None:
    import numpy as np
    import tensorflow as tf

    keras = models.keras_module(flavour)
    with strategy.scope():
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
        model.compile(optimizer="adam", loss="mse")
    x = np.random.default_rng(0).normal(size=(_STEPS * _BATCH, 4)).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).filter(lambda x, y: True).batch(_BATCH)
    if known:
        data = data.apply(tf.data.experimental.assert_cardinality(_STEPS))
    model.fit(data, epochs=_EPOCHS, verbose=0, callbacks=[record.keras_callback(model)])
    counted = int(tf.convert_to_tensor(model.optimizer.iterations))
    assert counted == _STEPS * _EPOCHS, f"the optimizer counts {counted} steps, {_STEPS * _EPOCHS} were made"
