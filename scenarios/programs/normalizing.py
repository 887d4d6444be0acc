"""A small classifier with BatchNormalization, local or synchronized, masked or not, and its moving statistics."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from scenarios.programs import digits, models

Form = Literal["local", "synchronized", "masked"]
# Replicas do not divide any of them, and of the last one most get nothing.
UNEVEN = (17, 7, 1)
_EVEN = (12, 12)


def make(form: Form, flavour: models.Flavour, batches: tuple[int, ...] = _EVEN) -> Callable[[Any, Any], None]:
    """Trains on rows of pixels, [n, 8, 8]; `masked` leaves out empty rows and asks to synchronize the others'
    statistics.
    """
    return functools.partial(_train, form=form, flavour=flavour, batches=batches)


def make_moving_mean(flavour: models.Flavour) -> Callable[[Any, Any], None]:
    """Runs a local BatchNormalization forward and reports its moving mean, with numbers that are exact.

    Replicas have equal shares and a momentum of 1/2, so the mean over replicas of their moving means is the moving mean
    of the global batch.
    """
    return functools.partial(_moving_mean, flavour=flavour)


def _dataset(batches: tuple[int, ...]) -> Any:
    import tensorflow as tf

    data = digits.load(sum(batches))
    # Examples in order of their label, so that replicas see different statistics.
    order = data.labels.argsort(kind="stable")
    columns = (data.ids[order], data.images[order, :, :, 0], data.labels[order])
    whole = tf.data.Dataset.from_tensor_slices(columns)
    pieces = [whole.skip(sum(batches[:i])).take(size).batch(size) for i, size in enumerate(batches)]
    return functools.reduce(lambda left, right: left.concatenate(right), pieces)


def _train(strategy: Any, record: Any, *, form: Form, flavour: models.Flavour, batches: tuple[int, ...]) -> None:
    import tensorflow as tf

    keras = models.keras_module(flavour)
    with strategy.scope():
        model = _model(keras, form)
        optimizer = keras.optimizers.SGD(0.125)
        optimizer.build(model.trainable_variables)
        per_example = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=models.no_reduction(keras))

    def replica_step(ids: Any, rows: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = per_example(labels, model(rows, training=True))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=batches[0])
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss, gradients, ids

    @tf.function(reduce_retracing=True)
    def train_step(batch: Any) -> Any:
        losses, gradients, ids = strategy.run(replica_step, args=batch)
        # Reduced, so that what is reported is global whatever the optimizer does with the replicas' own.
        total = functools.partial(strategy.reduce, tf.distribute.ReduceOp.SUM, axis=None)
        return total(losses), [total(gradient) for gradient in gradients], ids

    names = [getattr(variable, "path", variable.name) for variable in model.trainable_variables]
    for batch in strategy.experimental_distribute_dataset(_dataset(batches)):
        loss, gradients, ids = train_step(batch)
        named = dict(zip(names, gradients, strict=True))
        record.step(loss=loss, gradients=named, variables=models.variables_of(model, optimizer), examples=ids)
    held_out = digits.load(12, start=600)
    record.final(
        variables=models.variables_of(model, optimizer), predictions=model(held_out.images[..., 0], training=False)
    )


def _model(keras: Any, form: Form) -> Any:
    layers = keras.layers
    stack = [layers.Masking(0.0)] if form == "masked" else []
    stack += [
        layers.BatchNormalization(momentum=0.5, synchronized=form != "local"),
        layers.Flatten(),
        layers.Dense(digits.CLASSES, kernel_initializer=models.initializer(2)),
    ]
    return keras.Sequential([keras.Input((8, 8)), *stack])


def _moving_mean(strategy: Any, record: Any, *, flavour: models.Flavour) -> None:
    import tensorflow as tf

    keras = models.keras_module(flavour)
    with strategy.scope():
        layer = keras.layers.BatchNormalization(momentum=0.5)
        layer.build((None, 64))

    @tf.function
    def step(batch: Any) -> None:
        strategy.run(lambda pixels: layer(pixels, training=True), args=(batch,))

    # Multiples of 3 / 16, so that a mean over 3 replicas of a mean over 4 examples is exact; 48 = 3 * 16 likewise.
    pixels = 3 * digits.load(48).images.reshape(48, 64)
    for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(pixels).batch(12)):
        step(batch)
        record.step(variables={"moving_mean": layer.moving_mean})
