"""A custom loop that reduces its loss in every way that people write, each beside the mistake that is usually made in
it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from scenarios.programs import digits, margins, models

Form = Literal[
    "per_example",
    "sum",
    "sample_weight",
    "class_weight",
    "mask",
    "regularizer",
    "add_loss",
    "all_reduce_mean",
    "local_mean",
    "local_mask",
    "regularizer_per_replica",
    "divided_twice",
]
_DECAY = 0.125


def make(
    form: Form, flavour: models.Flavour | None = None, batches: tuple[int, ...] = margins.BATCHES
) -> Callable[[Any, Any], None]:
    """A training program, exact on every replica count; without a flavour it trains plain variables.

    Right are `per_example` (`compute_average_loss` of one loss per example), `sum` (a SUM divided by the global batch),
    `sample_weight`, `class_weight`, `mask` (divided by the valid examples of all replicas), `regularizer` and
    `add_loss` (scaled by 1 / R), and `all_reduce_mean` (the divisor is counted over all replicas).

    Wrong are `local_mean` (the replica's own mean, then SUM), `local_mask` (divided by R times the replica's own valid
    examples), `regularizer_per_replica` (not scaled), and `divided_twice` (a global mean that is reduced with MEAN).
    """
    return functools.partial(_train, form=form, flavour=flavour, batches=batches)


def _train(strategy: Any, record: Any, *, form: Form, flavour: models.Flavour | None, batches: tuple[int, ...]) -> None:
    import tensorflow as tf

    distributed = strategy.experimental_distribute_dataset(margins.dataset(batches))
    with strategy.scope():
        classify, apply, trainable, variables = _plain() if flavour is None else _keras(flavour)

    def replica_step(ids: Any, pixels: Any, targets: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            scores = classify(pixels)
            losses = tf.reduce_sum(margins.hinge(scores, targets), axis=1)
            loss = _reduce(form, ids, losses, scores, labels, trainable)
        gradients = tape.gradient(loss, trainable)
        apply(gradients)
        return loss, gradients, ids

    @tf.function(reduce_retracing=True)
    def train_step(batch: Any) -> Any:
        losses, gradients, ids = strategy.run(replica_step, args=batch)
        op = tf.distribute.ReduceOp.MEAN if form == "divided_twice" else tf.distribute.ReduceOp.SUM
        return strategy.reduce(op, losses, axis=None), gradients, ids

    for batch in distributed:
        loss, gradients, ids = train_step(batch)
        named = dict(zip(("weights", "bias"), gradients, strict=True))
        record.step(loss=loss, gradients=named, variables=variables, examples=ids)
    record.final(variables=variables)


def _reduce(form: Form, ids: Any, losses: Any, scores: Any, labels: Any, trainable: Any) -> Any:
    import tensorflow as tf

    average = functools.partial(tf.nn.compute_average_loss, global_batch_size=margins.GLOBAL_BATCH)
    penalty = _DECAY * tf.reduce_sum(tf.abs(tf.convert_to_tensor(trainable[0])))
    everyone = functools.partial(tf.distribute.get_replica_context().all_reduce, tf.distribute.ReduceOp.SUM)
    # The first half of a batch is valid: a power of two, and of two replicas the second has nothing valid.
    valid = tf.cast(ids % margins.GLOBAL_BATCH < margins.GLOBAL_BATCH // 2, tf.float32)
    ways: dict[Form, Callable[[], Any]] = {
        "per_example": lambda: average(losses),
        "sum": lambda: tf.reduce_sum(losses) / margins.GLOBAL_BATCH,
        "sample_weight": lambda: average(losses, sample_weight=tf.where(labels % 2 == 0, 0.5, 2.0)),
        "class_weight": lambda: average(losses * tf.gather(tf.constant([1.0, 2.0] * 5), labels)),
        "mask": lambda: tf.reduce_sum(losses * valid) / everyone(tf.reduce_sum(valid)),
        "regularizer": lambda: average(losses) + tf.nn.scale_regularization_loss(penalty),
        "add_loss": lambda: average(losses) + average(tf.reduce_sum(tf.abs(scores), axis=1)),
        "all_reduce_mean": lambda: tf.reduce_sum(losses) / everyone(tf.cast(tf.size(labels), tf.float32)),
        "local_mean": lambda: tf.math.divide_no_nan(tf.reduce_sum(losses), tf.cast(tf.size(labels), tf.float32)),
        "local_mask": lambda: tf.math.divide_no_nan(tf.reduce_sum(losses * valid), tf.reduce_sum(valid)) / _replicas(),
        "regularizer_per_replica": lambda: average(losses) + penalty,
        "divided_twice": lambda: average(losses),
    }
    return ways[form]()


def _replicas() -> Any:
    import tensorflow as tf

    return float(tf.distribute.get_strategy().num_replicas_in_sync)


def _plain() -> Any:
    import tensorflow as tf

    weights = tf.Variable(tf.zeros([64, digits.CLASSES]), name="weights", aggregation=tf.VariableAggregation.SUM)
    bias = tf.Variable(tf.zeros([digits.CLASSES]), name="bias", aggregation=tf.VariableAggregation.SUM)

    def apply(gradients: Any) -> None:
        # Each replica subtracts its own part; SUM makes the variable subtract them all.
        weights.assign_sub(gradients[0])
        bias.assign_sub(gradients[1])

    return lambda pixels: pixels @ weights + bias, apply, [weights, bias], [weights, bias]


def _keras(flavour: models.Flavour) -> Any:
    keras = models.keras_module(flavour)
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(digits.CLASSES, kernel_initializer="zeros")])
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build(model.trainable_variables)

    def apply(gradients: Any) -> None:
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    return model, apply, model.trainable_variables, models.variables_of(model, optimizer)
