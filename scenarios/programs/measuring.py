"""Metrics and predictions of a fixed linear model on digits: in a custom loop, in `evaluate` and `predict`, and in the
logs of `fit`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from scenarios.programs import digits, models

EVEN = (12, 12)
# Keras 3 `fit` cannot start with an uneven batch; of the last batch all replicas but the first get nothing.
UNEVEN = (12, 7, 1)
# Eight scores, a power of two, so that means over classes are exact. Digits 8 and 9 belong to no class.
CLASSES = 8


def make_loop(flavour: models.Flavour, batches: tuple[int, ...] = UNEVEN) -> Callable[[Any, Any], None]:
    """Updates metrics in `strategy.run` and reads them outside."""
    return functools.partial(_loop, flavour=flavour, batches=batches)


def make_evaluate(flavour: models.Flavour, batches: tuple[int, ...] = UNEVEN) -> Callable[[Any, Any], None]:
    """`evaluate`, then `predict`."""
    return functools.partial(_evaluate, flavour=flavour, batches=batches)


def make_logs(flavour: models.Flavour, batches: tuple[int, ...]) -> Callable[[Any, Any], None]:
    """`fit` for two epochs without learning anything, with the metrics that callbacks and `History` get."""
    return functools.partial(_logs, flavour=flavour, batches=batches)


def _data(batches: tuple[int, ...], *, ids: bool) -> Any:
    """(ids,) scores in [0, 1] that are multiples of 1/16, and targets, in batches of these sizes."""
    import numpy as np
    import tensorflow as tf

    count = sum(batches)
    data = digits.load(count)
    targets = (data.labels[:, None] == np.arange(CLASSES)).astype(np.float32)
    columns = (data.images.reshape(count, 64), targets)
    whole = tf.data.Dataset.from_tensor_slices((data.ids, *columns) if ids else columns)
    pieces = [whole.skip(sum(batches[:i])).take(size).batch(size) for i, size in enumerate(batches)]
    return functools.reduce(lambda left, right: left.concatenate(right), pieces)


def _model(keras: Any) -> Any:
    """Picks one pixel from each row of the image."""
    import numpy as np

    kernel = np.zeros((64, CLASSES), np.float32)
    kernel[np.arange(CLASSES) * 8 + (3, 4, 2, 5, 3, 4, 2, 5), np.arange(CLASSES)] = 1
    constant = keras.initializers.Constant(kernel)
    dense = keras.layers.Dense(CLASSES, use_bias=False, kernel_initializer=constant)
    return keras.Sequential([keras.Input((64,)), dense])


def _metrics(keras: Any) -> list[Any]:
    kinds = keras.metrics
    return [
        kinds.CategoricalAccuracy(name="accuracy"),
        kinds.TopKCategoricalAccuracy(k=3, name="top_3"),
        kinds.Precision(name="precision"),
        kinds.Recall(name="recall"),
        kinds.AUC(num_thresholds=17, name="auc"),
        kinds.MeanSquaredError(name="mse"),
    ]


def _loop(strategy: Any, record: Any, *, flavour: models.Flavour, batches: tuple[int, ...]) -> None:
    import numpy as np
    import tensorflow as tf

    keras = models.keras_module(flavour)
    with strategy.scope():
        model = _model(keras)
        metrics = _metrics(keras)
        mean = keras.metrics.Mean(name="mean_score")

    def replica_step(ids: Any, pixels: Any, targets: Any) -> Any:
        scores = model(pixels, training=False)
        for metric in metrics:
            metric.update_state(targets, scores)
        mean.update_state(scores)
        return ids, scores

    @tf.function(reduce_retracing=True)
    def step(batch: Any) -> Any:
        ids, scores = strategy.run(replica_step, args=batch)
        return ids, strategy.gather(ids, axis=0), strategy.gather(scores, axis=0)

    gathered = []
    for batch in strategy.experimental_distribute_dataset(_data(batches, ids=True)):
        ids, *pieces = step(batch)
        gathered.append(pieces)
        record.step(examples=ids, metrics={metric.name: metric.result() for metric in [*metrics, mean]})
    ids, scores = (np.concatenate(column) for column in zip(*gathered, strict=True))
    record.final(predictions=scores[np.argsort(ids)])


def _compiled(strategy: Any, flavour: models.Flavour) -> Any:
    keras = models.keras_module(flavour)
    with strategy.scope():
        model = _model(keras)
        model.compile(optimizer=keras.optimizers.SGD(0.0), loss="mse", metrics=_metrics(keras))
    return model


def _evaluate(strategy: Any, record: Any, *, flavour: models.Flavour, batches: tuple[int, ...]) -> None:
    model = _compiled(strategy, flavour)
    data = _data(batches, ids=False)
    metrics = model.evaluate(data, verbose=0, return_dict=True)
    record.step(metrics=metrics)
    record.final(predictions=model.predict(data, verbose=0))


def _logs(strategy: Any, record: Any, *, flavour: models.Flavour, batches: tuple[int, ...]) -> None:
    model = _compiled(strategy, flavour)

    class Logs(models.keras_module(flavour).callbacks.Callback):  # type: ignore[misc]
        """Reports what `fit` gives it, which `record.keras_callback` asks the metrics for."""

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            loss, metrics = logs["loss"], {name: value for name, value in logs.items() if name != "loss"}
            record.step(loss=loss, variables=model.variables, metrics=metrics)

    history = model.fit(_data(batches, ids=False), epochs=2, verbose=0, callbacks=[Logs()])
    record.final(metrics={f"history_{name}": values[-1] for name, values in history.history.items()})
