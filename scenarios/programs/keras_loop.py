"""TensorFlow's "Custom training" tutorial on the digits, with a Keras 3 or Keras 2 model and optimizer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Literal

from scenarios.programs import digits, models

Mode = Literal["function", "eager", "jit"]
Iterate = Literal["dataset", "iterator"]


def make(
    flavour: models.Flavour = "keras",
    model: models.ModelName = "cnn",
    optimizer: models.OptimizerName = "momentum",
    *,
    epochs: int = 2,
    examples: int = 192,
    global_batch: int = digits.GLOBAL_BATCH,
    mode: Mode = "function",
    iterate: Iterate = "dataset",
) -> Callable[[Any, Any], None]:
    """A training program in the tutorial's form; records losses, gradients, variables, ids, accuracy and predictions.

    Its step is eager, in a `tf.function`, or has its forward and backward pass compiled by XLA (`jit`).
    """
    return functools.partial(
        _train,
        flavour=flavour,
        model_name=model,
        optimizer_name=optimizer,
        epochs=epochs,
        examples=examples,
        global_batch=global_batch,
        mode=mode,
        iterate=iterate,
    )


def _train(
    strategy: Any,
    record: Any,
    *,
    flavour: models.Flavour,
    model_name: models.ModelName,
    optimizer_name: models.OptimizerName,
    epochs: int,
    examples: int,
    global_batch: int,
    mode: Mode,
    iterate: Iterate,
) -> None:
    import tensorflow as tf

    keras = models.keras_module(flavour)
    distributed = strategy.experimental_distribute_dataset(digits.batches(digits.load(examples), global_batch))
    with strategy.scope():
        model = models.build_model(flavour, model_name)
        optimizer = models.build_optimizer(flavour, optimizer_name)
        # Slots must exist before the first strategy.run: Keras 3 cannot create them in a replica context.
        optimizer.build(model.trainable_variables)
        loss_object = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=models.no_reduction(keras))
        accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")

    def differentiate(images: Any, labels: Any) -> tuple[Any, Any, Any]:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.nn.compute_average_loss(loss_object(labels, logits), global_batch_size=global_batch)
        return loss, logits, tape.gradient(loss, model.trainable_variables)

    if mode == "jit":
        # Not the whole step: the reduction between replicas that apply_gradients asks for is no XLA op on CPUs.
        differentiate = tf.function(differentiate, jit_compile=True)

    def replica_step(ids: Any, images: Any, labels: Any) -> tuple[Any, Any, Any]:
        loss, logits, gradients = differentiate(images, labels)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        accuracy.update_state(labels, logits)
        return loss, gradients, ids

    def train_step(batch: Any) -> tuple[Any, Any, Any]:
        losses, gradients, ids = strategy.run(replica_step, args=batch)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None), gradients, ids

    names = [getattr(variable, "path", variable.name) for variable in model.trainable_variables]
    if mode != "eager":
        train_step = tf.function(train_step)
    for _ in range(epochs):
        for batch in distributed if iterate == "dataset" else _from_iterator(distributed, examples // global_batch):
            loss, gradients, ids = train_step(batch)
            record.step(
                loss=loss,
                gradients=dict(zip(names, gradients, strict=True)),
                variables=models.variables_of(model, optimizer),
                examples=ids,
                metrics={"accuracy": accuracy.result()},
            )
    predictions = _predict(strategy, model, distributed)
    record.final(variables=models.variables_of(model, optimizer), predictions=predictions)


def _from_iterator(distributed: Any, steps: int) -> Iterator[Any]:
    iterator = iter(distributed)
    for _ in range(steps):
        yield next(iterator)


def _predict(strategy: Any, model: Any, distributed: Any) -> Any:
    """Logits in the order of example ids: replicas of several workers do not hold adjacent pieces of the batch."""
    import numpy as np
    import tensorflow as tf

    @tf.function
    def predict_step(batch: Any) -> tuple[Any, Any]:
        ids, logits = strategy.run(lambda ids, images, _: (ids, model(images, training=False)), args=batch)
        return strategy.gather(ids, axis=0), strategy.gather(logits, axis=0)

    pieces = [predict_step(batch) for batch in distributed]
    ids = np.concatenate([piece[0] for piece in pieces])
    return np.concatenate([piece[1] for piece in pieces])[np.argsort(ids)]


train = make()
