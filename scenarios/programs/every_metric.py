"""Every other metric of a Keras on uneven batches, and the losses that `fit` reports of each output of a model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from scenarios.programs import models

CLASSES = 4
_PLAIN = (
    "BinaryAccuracy",
    "BinaryCrossentropy",
    "CategoricalCrossentropy",
    "CategoricalHinge",
    "ConcordanceCorrelation",
    "CosineSimilarity",
    "F1Score",
    "FalseNegatives",
    "FalsePositives",
    "FBetaScore",
    "Hinge",
    "KLDivergence",
    "LogCoshError",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanSquaredLogarithmicError",
    "PearsonCorrelation",
    "Poisson",
    "R2Score",
    "RootMeanSquaredError",
    "SquaredHinge",
    "TrueNegatives",
    "TruePositives",
)
# Replicas do not divide the second batch, and of the third most get nothing.
_BATCHES = (12, 7, 1)


def make(flavour: models.Flavour) -> Callable[[Any, Any], None]:
    """Updates the metrics that this Keras has in `strategy.run`, on random scores, and reads them outside."""
    return functools.partial(_measure, flavour=flavour)


def make_outputs(flavour: models.Flavour, examples: int) -> Callable[[Any, Any], None]:
    """`fit` and `evaluate` of a model with two outputs whose losses are weighted, in batches of 12."""
    return functools.partial(_outputs, flavour=flavour, examples=examples)


def _measure(strategy: Any, record: Any, *, flavour: models.Flavour) -> None:
    import numpy as np
    import tensorflow as tf

    kinds = models.keras_module(flavour).metrics
    with strategy.scope():
        metrics = [getattr(kinds, name)(name=name) for name in _PLAIN if hasattr(kinds, name)]
        metrics += [
            kinds.BinaryIoU(target_class_ids=[0, 1], name="binary_iou"),
            kinds.OneHotMeanIoU(num_classes=CLASSES, name="one_hot_mean_iou"),
            kinds.PrecisionAtRecall(0.5, name="precision_at_recall"),
            kinds.SensitivityAtSpecificity(0.5, name="sensitivity_at_specificity"),
            kinds.AUC(curve="PR", multi_label=True, num_labels=CLASSES, name="multi_label_auc"),
        ]

    def replica_step(targets: Any, scores: Any) -> None:
        for metric in metrics:
            metric.update_state(targets, scores)

    @tf.function(reduce_retracing=True)
    def step(batch: Any) -> None:
        strategy.run(replica_step, args=batch)

    random = np.random.default_rng(0)
    targets = np.eye(CLASSES, dtype=np.float32)[random.integers(0, CLASSES, sum(_BATCHES))]
    scores = random.uniform(0.05, 0.95, targets.shape).astype(np.float32)
    whole = tf.data.Dataset.from_tensor_slices((targets, scores))
    pieces = [whole.skip(sum(_BATCHES[:i])).take(size).batch(size) for i, size in enumerate(_BATCHES)]
    data = functools.reduce(lambda left, right: left.concatenate(right), pieces)
    for batch in strategy.experimental_distribute_dataset(data):
        step(batch)
        record.step(metrics={metric.name: metric.result() for metric in metrics})


def _outputs(strategy: Any, record: Any, *, flavour: models.Flavour, examples: int) -> None:
    import numpy as np
    import tensorflow as tf

    keras = models.keras_module(flavour)
    with strategy.scope():
        inputs = keras.Input((1,))
        dense = functools.partial(keras.layers.Dense, 1, use_bias=False, kernel_initializer="ones")
        model = keras.Model(inputs, [dense(name="first")(inputs), dense(name="second")(inputs)])
        losses = [lambda target, output: output[:, 0], lambda target, output: output[:, 0]]
        model.compile(keras.optimizers.SGD(0.0), losses, loss_weights=[1.0, 2.0])
    x = np.arange(1, examples + 1, dtype=np.float32)[:, None]
    data = tf.data.Dataset.from_tensor_slices((x, (x, x))).batch(12)
    history = model.fit(data, verbose=0).history
    evaluated = model.evaluate(data, verbose=0, return_dict=True)
    record.step(metrics={name: values[-1] for name, values in history.items()})
    record.final(metrics=evaluated)
