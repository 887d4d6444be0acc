"""`Model.fit` with a loss function that returns one number for its batch, on data whose numbers are all exact."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from scenarios.programs import digits, margins, models

__all__ = ["make"]


def make(flavour: models.Flavour) -> Callable[[Any, Any], None]:
    """Trains hinge classifiers for one epoch of four batches of 16, each of which replicas share evenly."""
    return functools.partial(_train, flavour=flavour)


def _train(strategy: Any, record: Any, *, flavour: models.Flavour) -> None:
    import tensorflow as tf

    keras = models.keras_module(flavour)

    def hinge(targets: Any, scores: Any) -> Any:
        return tf.reduce_mean(tf.reduce_sum(margins.hinge(scores, targets), axis=1))

    with strategy.scope():
        model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(digits.CLASSES, kernel_initializer="zeros")])
        model.compile(optimizer=keras.optimizers.SGD(1.0), loss=hinge)
    model.distribute_reduction_method = "first"
    data = margins.dataset((16,) * 4).map(lambda ids, pixels, targets, labels: (pixels, targets))
    model.fit(data, epochs=1, verbose=0, callbacks=[record.keras_callback(model)])
