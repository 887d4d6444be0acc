"""The truth table of loss reduction: what each way to reduce a loss reports and trains with, measured under a
strategy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from harness import StrategyCase
from scenarios.programs import loss_formulas as forms
from scenarios.programs import models

# (loss, gradient) by loop, flavour, reduction and batch.
Measured = dict[tuple[str, str, str, int], tuple[float, float]]
BOTH: tuple[models.Flavour, ...] = ("keras", "tf_keras")


@dataclass(frozen=True)
class Row:
    """One way to reduce a loss, the closed form of (reported loss, gradient summed over replicas), and its source.

    `source` says where the semantics are documented or which line makes them; of a defect it is the known issue's id.
    """

    loop: Literal["loop", "fit"]
    reduction: str
    flavours: tuple[models.Flavour, ...]
    formula: Callable[[forms.Shares], forms.Pair]
    source: str


_TUTORIAL = "tensorflow.org/tutorials/distribute/custom_training, Define the loss function"
_AVERAGE = "tf.nn.compute_average_loss"
_KERAS3 = "keras/src/losses/loss.py:229 (scale_loss_for_distribution)"
_KERAS2 = "tf_keras/src/engine/compile_utils.py:283"
_MASK = "mask of padding"
ROWS = (
    Row("loop", "NONE, compute_average_loss(global_batch_size)", BOTH, forms.global_mean, _TUTORIAL),
    Row("loop", "NONE, compute_average_loss()", BOTH, forms.mean_over_replicas, _AVERAGE),
    Row("loop", "SUM / global batch size", BOTH, forms.global_mean, _TUTORIAL),
    Row("loop", "SUM", BOTH, forms.global_sum, _TUTORIAL),
    Row("loop", "SUM_OVER_BATCH_SIZE", ("keras",), forms.mean_over_replicas, _KERAS3),
    Row("loop", "reduce_mean, then reduce SUM", BOTH, forms.sum_of_means, _TUTORIAL),
    Row("loop", "reduce_mean, then reduce MEAN", BOTH, forms.mean_of_means, _TUTORIAL),
    Row("loop", "scale_regularization_loss", BOTH, forms.regularizer_once, "tf.nn.scale_regularization_loss"),
    Row("fit", "SUM_OVER_BATCH_SIZE", ("keras",), forms.fit_mean, _KERAS3),
    Row("fit", "SUM_OVER_BATCH_SIZE", ("tf_keras",), forms.fit_mean, _KERAS2),
    Row("fit", "SUM", BOTH, forms.fit_sum, _KERAS2),
    Row("fit", "function of one loss per example", BOTH, forms.fit_mean, _KERAS3),
    Row("fit", "function of one scalar", ("keras",), forms.keras3_fit_scalar, "keras3-fit-scalar-loss"),
    Row("fit", "function of one scalar", ("tf_keras",), forms.fit_mean, _KERAS2),
    Row("fit", "sample weights", BOTH, forms.weighted_fit_mean, _KERAS3),
    Row("fit", _MASK, BOTH, forms.fit_masked_mean, "keras/src/losses/loss.py:197 (apply_mask)"),
    Row("fit", "mean_with_sample_weight", ("keras",), forms.keras3_fit_weighted_mean, "keras/src/losses/loss.py:150"),
    Row(
        "fit",
        "kernel regularizer",
        BOTH,
        forms.regularizer_once,
        "keras/src/backend/tensorflow/trainer.py:_aggregate_additional_loss",
    ),
    Row(
        "fit",
        "add_loss",
        BOTH,
        forms.regularizer_once,
        "keras/src/backend/tensorflow/trainer.py:_aggregate_additional_loss",
    ),
)


def agrees(measured: float, predicted: Fraction | None) -> bool:
    """Whether a float32 is the predicted number up to its last bits: dividing by R or by a batch rounds."""
    if predicted is None:
        return math.isnan(measured)
    return abs(measured - float(predicted)) <= 4 * 2.0**-23 * abs(float(predicted))


def described(row: Row, batch: int, replicas: int) -> str:
    """Loss and gradient as multiples of what one device has, `1` or `1 / 1/2`, by the closed form."""
    parts = forms.shares(batch, replicas)
    true = row.formula(forms.shares(batch, 1))
    pairs = zip(row.formula(parts), true, strict=True)
    words = [forms.describe(value, one, parts) for value, one in pairs if one is not None]
    return words[0] if len(set(words)) == 1 else " / ".join(words)


def measure(case: StrategyCase, only: str = "") -> Measured:
    """Run every row under a strategy, in one client task; `fit` is left out where it is known to raise."""
    strategy = case.build()
    measured: Measured = {}
    for flavour in BOTH:
        measured |= _measure_loop(strategy, flavour)
        if flavour == "tf_keras" or case.kind != "multi_worker":
            for row in ROWS:
                if row.loop == "fit" and flavour in row.flavours and only in row.reduction:
                    measured |= _measure_fit(strategy, flavour, row.reduction)
    return measured


def _dataset(*columns: Callable[[tuple[forms.Example, ...]], Any]) -> Any:
    """The batches of `forms.BATCHES`, one column of float32 for each function of the examples."""
    import numpy as np
    import tensorflow as tf

    parts = []
    for batch in forms.BATCHES:
        values = [np.asarray(column(forms.examples_of(batch)), np.float32) for column in columns]
        parts.append(tf.data.Dataset.from_tensor_slices(tuple(values)).batch(batch))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.concatenate(part)
    return whole


def _losses(examples: tuple[forms.Example, ...]) -> list[list[float]]:
    return [[float(example.loss)] for example in examples]


def _shown_losses(examples: tuple[forms.Example, ...]) -> list[list[float]]:
    """A layer of the model masks what is 0."""
    return [[0.0 if example.padding else float(example.loss)] for example in examples]


def _weights(examples: tuple[forms.Example, ...]) -> list[float]:
    return [float(example.weight) for example in examples]


def _zeros(examples: tuple[forms.Example, ...]) -> list[list[float]]:
    return [[0.0] for _ in examples]


def _measure_loop(strategy: Any, flavour: models.Flavour) -> Measured:
    import tensorflow as tf

    keras = models.keras_module(flavour)
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    by_reduction = _loop_losses(keras)
    weight = model.trainable_variables[0]

    def replica_step(values: Any, global_batch: Any) -> Any:
        result = {}
        for name, loss_of in by_reduction.items():
            with tf.GradientTape() as tape:
                loss = loss_of(model(values), weight, global_batch)
            result[name] = loss, tape.gradient(loss, weight)
        return result

    @tf.function(reduce_retracing=True)
    def step(values: Any, global_batch: Any) -> Any:
        return strategy.run(replica_step, args=(values, global_batch))

    measured: Measured = {}
    for batch, (values,) in zip(
        forms.BATCHES, strategy.experimental_distribute_dataset(_dataset(_losses)), strict=True
    ):
        for name, (loss, gradient) in step(values, tf.constant(batch)).items():
            mean = tf.distribute.ReduceOp.MEAN if name.endswith("MEAN") else tf.distribute.ReduceOp.SUM
            reduced = strategy.reduce(mean, loss, axis=None), strategy.reduce("SUM", gradient, axis=None)
            measured["loop", flavour, name, batch] = float(reduced[0]), float(tf.squeeze(reduced[1]))
    return measured


def _loop_losses(keras: Any) -> dict[str, Callable[[Any, Any, Any], Any]]:
    import tensorflow as tf

    class Output(keras.losses.Loss):  # type: ignore[misc]  # Keras is untyped
        """The model's output is the loss of each example."""

        def call(self, y_true: Any, y_pred: Any) -> Any:
            return y_pred[:, 0]

    none, total = Output(reduction=models.no_reduction(keras)), Output(reduction="sum")
    losses: dict[str, Callable[[Any, Any, Any], Any]] = {
        "NONE, compute_average_loss(global_batch_size)": lambda out, _, batch: tf.nn.compute_average_loss(
            none(out, out), global_batch_size=batch
        ),
        "NONE, compute_average_loss()": lambda out, _, batch: tf.nn.compute_average_loss(none(out, out)),
        "SUM / global batch size": lambda out, _, batch: total(out, out) / tf.cast(batch, tf.float32),
        "SUM": lambda out, _, batch: total(out, out),
        "reduce_mean, then reduce SUM": lambda out, _, batch: tf.reduce_mean(none(out, out)),
        "reduce_mean, then reduce MEAN": lambda out, _, batch: tf.reduce_mean(none(out, out)),
        "scale_regularization_loss": lambda _, weight, batch: tf.nn.scale_regularization_loss(
            840 * tf.reduce_sum(tf.convert_to_tensor(weight))
        ),
    }
    if not hasattr(keras.losses, "Reduction"):  # Keras 2 refuses this one in a custom loop, with a good message
        mean = Output(reduction="sum_over_batch_size")
        losses["SUM_OVER_BATCH_SIZE"] = lambda out, _, batch: mean(out, out)
    return losses


def _measure_fit(strategy: Any, flavour: models.Flavour, reduction: str) -> Measured:
    keras = models.keras_module(flavour)
    with strategy.scope():
        model = _fit_model(keras, reduction)
        model.compile(optimizer=keras.optimizers.SGD(1.0), loss=_fit_loss(keras, reduction))
    measured: Measured = {}

    class Watch(keras.callbacks.Callback):  # type: ignore[misc, name-defined]  # Keras is untyped
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            model.reset_metrics()
            model.trainable_variables[0].assign([[1.0]])

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            # What an epoch that ends here reports; the logs of a batch are another matter, see test_metrics.
            loss = model.get_metrics_result()["loss"]
            gradient = 1.0 - float(model.trainable_variables[0].numpy()[0, 0])
            measured["fit", flavour, reduction, forms.BATCHES[batch]] = float(loss), gradient

    weighted = reduction in ("sample weights", "mean_with_sample_weight")
    losses = _shown_losses if reduction == _MASK else _losses
    dataset = _dataset(losses, _zeros, _weights) if weighted else _dataset(losses, _zeros)
    model.fit(dataset, epochs=1, verbose=0, callbacks=[Watch()])
    return measured


def _fit_model(keras: Any, reduction: str) -> Any:
    import tensorflow as tf

    class Regularizer(keras.regularizers.Regularizer):  # type: ignore[misc]  # Keras is untyped; 3.9 takes no function
        def __call__(self, kernel: Any) -> Any:
            return 840 * tf.reduce_sum(tf.convert_to_tensor(kernel))

    regularizer = Regularizer()

    class Dense(keras.layers.Dense):  # type: ignore[misc]  # Keras is untyped
        def call(self, inputs: Any) -> Any:
            if reduction == "add_loss":
                self.add_loss(regularizer(self.kernel))
            return super().call(inputs)

    kernel_regularizer = regularizer if reduction == "kernel regularizer" else None
    dense = Dense(1, use_bias=False, kernel_initializer="ones", kernel_regularizer=kernel_regularizer)
    masking = [keras.layers.Masking(0.0)] if reduction == _MASK else []
    return keras.Sequential([keras.Input((1,)), *masking, dense])


def _fit_loss(keras: Any, reduction: str) -> Any:
    import tensorflow as tf

    class Output(keras.losses.Loss):  # type: ignore[misc]  # Keras is untyped
        def call(self, y_true: Any, y_pred: Any) -> Any:
            return y_pred[:, 0]

    if reduction == "function of one scalar":
        return lambda y_true, y_pred: tf.math.divide_no_nan(
            tf.reduce_sum(y_pred), tf.cast(tf.shape(y_pred)[0], tf.float32)
        )
    if reduction == "function of one loss per example":
        return lambda y_true, y_pred: y_pred[:, 0]
    if reduction in ("kernel regularizer", "add_loss"):
        return lambda y_true, y_pred: 0 * y_pred[:, 0]
    named = {"SUM": "sum", "mean_with_sample_weight": "mean_with_sample_weight"}
    return Output(reduction=named.get(reduction, "sum_over_batch_size"))
