"""`Model.fit` with a loss function of one's own, on data whose numbers are all exact."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from scenarios.programs import digits, margins, models


def make(flavour: models.Flavour, *, scalar: bool, jit_compile: bool = False) -> Callable[[Any, Any], None]:
    """Trains hinge classifiers for one epoch of four batches of 16, each of which replicas share evenly.

    The loss function returns one number for its batch if `scalar`, else one for each example.
    """
    return functools.partial(_train, flavour=flavour, scalar=scalar, jit_compile=jit_compile)


def _train(strategy: Any, record: Any, *, flavour: models.Flavour, scalar: bool, jit_compile: bool) -> None:
    import tensorflow as tf

    keras = models.keras_module(flavour)

    def hinge(targets: Any, scores: Any) -> Any:
        losses = tf.reduce_sum(margins.hinge(scores, targets), axis=1)
        return tf.reduce_mean(losses) if scalar else losses

    with strategy.scope():
        model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(digits.CLASSES, kernel_initializer="zeros")])
        model.compile(optimizer=keras.optimizers.SGD(1.0), loss=hinge, jit_compile=jit_compile)
    data = margins.dataset((16,) * 4).map(lambda ids, pixels, targets, labels: (pixels, targets))
    model.fit(data, epochs=1, verbose=0, callbacks=[record.keras_callback(model)])
