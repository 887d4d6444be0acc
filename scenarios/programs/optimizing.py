"""A custom loop whose optimizer clips, accumulates, warms up, averages, decays or constrains, with Keras 3 or
Keras 2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from scenarios.programs import digits, margins, models

Option = Literal[
    "clipvalue",
    "clipnorm",
    "global_clipnorm",
    "warm_up",
    "ema",
    "ema_overwrite",
    "weight_decay",
    "constraint",
    "accumulation",
]
# Each of them binds at the first step: gradients of the digits reach 2, their norms 30.
_OPTIONS: dict[Option, dict[str, Any]] = {
    "clipvalue": {"clipvalue": 0.25},
    "clipnorm": {"clipnorm": 0.5},
    "global_clipnorm": {"global_clipnorm": 0.5},
    "warm_up": {},
    "ema": {"use_ema": True, "ema_momentum": 0.5},
    "ema_overwrite": {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2},
    "weight_decay": {"weight_decay": 0.25},
    "constraint": {},
    "accumulation": {"gradient_accumulation_steps": 2},
}


def make(
    option: Option, flavour: models.Flavour, batches: tuple[int, ...] = margins.BATCHES
) -> Callable[[Any, Any], None]:
    """A training program with SGD and this option; `warm_up` raises the learning rate linearly over three steps."""
    return functools.partial(_train, option=option, flavour=flavour, batches=batches)


def _train(strategy: Any, record: Any, *, option: Option, flavour: models.Flavour, batches: tuple[int, ...]) -> None:
    import tensorflow as tf

    keras = models.keras_module(flavour)
    distributed = strategy.experimental_distribute_dataset(margins.dataset(batches))
    with strategy.scope():
        constraint = keras.constraints.MaxNorm(0.5) if option == "constraint" else None
        dense = keras.layers.Dense(digits.CLASSES, kernel_initializer="zeros", kernel_constraint=constraint)
        model = keras.Sequential([keras.Input((64,)), dense])
        rate = _warm_up(keras) if option == "warm_up" else 1.0
        optimizer = keras.optimizers.SGD(rate, **_OPTIONS[option])
        optimizer.build(model.trainable_variables)

    def replica_step(ids: Any, pixels: Any, targets: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum(margins.hinge(model(pixels, training=True), targets), axis=1)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=margins.GLOBAL_BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss, gradients, ids

    @tf.function(reduce_retracing=True)
    def train_step(batch: Any) -> Any:
        losses, gradients, ids = strategy.run(replica_step, args=batch)
        # Reduced, so that what is reported is global whatever the optimizer does with the replicas' own.
        total = functools.partial(strategy.reduce, tf.distribute.ReduceOp.SUM, axis=None)
        return total(losses), [total(gradient) for gradient in gradients], ids

    for batch in distributed:
        loss, gradients, ids = train_step(batch)
        named = dict(zip(("weights", "bias"), gradients, strict=True))
        record.step(loss=loss, gradients=named, variables=models.variables_of(model, optimizer), examples=ids)
    if option.startswith("ema"):
        optimizer.finalize_variable_values(model.trainable_variables)
    record.final(variables=models.variables_of(model, optimizer))


def _warm_up(keras: Any) -> Any:
    """The linear warm-up of "Accurate, Large Minibatch SGD" (Goyal et al., 2017), with dyadic rates."""
    import tensorflow as tf

    class WarmUp(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]  # Keras is untyped
        def __call__(self, step: Any) -> Any:
            return tf.minimum(1.0, (tf.cast(step, tf.float32) + 1.0) / 4.0)

        def get_config(self) -> dict[str, Any]:
            return {}

    return WarmUp()
