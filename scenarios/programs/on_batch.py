"""A loop of one's own over `train_on_batch`, `test_on_batch` and `predict_on_batch`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from scenarios.programs import models

Call = Literal["train", "test", "predict"]
_BATCH, _STEPS = 12, 3


def make(flavour: models.Flavour, call: Call) -> Callable[[Any, Any], None]:
    """Calls it three times, with 12 rows each, and reports what it returns, and what metrics have counted.

    What is tested has no weights, so that all of its values are whole numbers.
    """
    return functools.partial(_run, flavour=flavour, call=call)


def _run(strategy: Any, record: Any, *, flavour: models.Flavour, call: Call) -> None:
    import numpy as np

    keras = models.keras_module(flavour)
    with strategy.scope():
        inputs = keras.Input((2,))
        layer = keras.layers.Identity() if call == "test" else keras.layers.Dense(2, kernel_initializer="ones")
        model = keras.Model(inputs, layer(inputs))
        positives = keras.metrics.TruePositives(name="positives")
        model.compile(keras.optimizers.SGD(0.125), "mse", metrics=[positives])
    x = (np.arange(2 * _BATCH * _STEPS) % 3 == 0).astype(np.float32).reshape(_STEPS, _BATCH, 2)
    predicted = []
    for batch in x:
        if call == "train":
            loss = model.train_on_batch(batch, batch, return_dict=True)["loss"]
            record.step(loss=loss, variables=models.variables_of(model, model.optimizer))
        elif call == "test":
            found = model.test_on_batch(batch, batch, return_dict=True)
            record.step(loss=found["loss"], metrics={"positives": positives.result()})
        else:
            predicted.append(model.predict_on_batch(batch))
            record.step()
    if predicted:
        record.final(predictions=np.concatenate(predicted))
