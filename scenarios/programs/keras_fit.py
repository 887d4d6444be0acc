"""`Model.fit`, `evaluate` and `predict` on the digits, with Keras 3 or Keras 2."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from scenarios.programs import digits, models

Source = Literal["repeated", "dataset", "arrays"]


def make(
    flavour: models.Flavour = "tf_keras",
    model: models.ModelName = "cnn",
    optimizer: models.OptimizerName = "momentum",
    *,
    epochs: int = 2,
    examples: int = 192,
    global_batch: int = digits.GLOBAL_BATCH,
    steps_per_execution: int = 1,
    style: models.Style = "sequential",
    source: Source = "repeated",
) -> Callable[[Any, Any], None]:
    """A training program that fits, then evaluates and predicts held-out digits.

    `source` is how data reaches `fit`: a repeated dataset with `steps_per_epoch`, a plain dataset, or NumPy arrays; the
    latter two also with validation data after each epoch.
    """
    return functools.partial(
        _train,
        flavour=flavour,
        model_name=model,
        optimizer_name=optimizer,
        epochs=epochs,
        examples=examples,
        global_batch=global_batch,
        steps_per_execution=steps_per_execution,
        style=style,
        source=source,
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
    steps_per_execution: int,
    style: models.Style,
    source: Source,
) -> None:
    keras = models.keras_module(flavour)
    with strategy.scope():
        model = models.build_model(flavour, model_name, style)
        model.compile(
            optimizer=models.build_optimizer(flavour, optimizer_name),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
            steps_per_execution=steps_per_execution,
        )
    data, held_out = digits.load(examples), digits.load(2 * global_batch, start=examples)
    inputs = _arrays(data, held_out, global_batch) if source == "arrays" else _datasets(data, held_out, global_batch)
    if source == "repeated":
        # Parameter servers need a stated number of steps; under the others the numbers are the same.
        inputs["fit"] = {"x": inputs["fit"]["x"].repeat(), "steps_per_epoch": examples // global_batch}
    model.fit(**inputs["fit"], epochs=epochs, verbose=0, callbacks=[record.keras_callback(model)])
    record.final(
        metrics=model.evaluate(**inputs["evaluate"], verbose=0, return_dict=True),
        predictions=model.predict(**inputs["predict"], verbose=0),
    )


def _datasets(data: digits.Digits, held_out: digits.Digits, global_batch: int) -> dict[str, dict[str, Any]]:
    training = _without_ids(digits.batches(data, global_batch))
    testing = _without_ids(digits.batches(held_out, global_batch))
    steps = len(held_out.ids) // global_batch
    return {
        "fit": {"x": training, "validation_data": testing},
        "evaluate": {"x": testing, "steps": steps},
        "predict": {"x": testing, "steps": steps},
    }


def _arrays(data: digits.Digits, held_out: digits.Digits, global_batch: int) -> dict[str, dict[str, Any]]:
    testing = (held_out.images, held_out.labels)
    size = {"batch_size": global_batch}
    return {
        "fit": {"x": data.images, "y": data.labels, "shuffle": False, "validation_data": testing, **size},
        "evaluate": {"x": testing[0], "y": testing[1], **size},
        "predict": {"x": testing[0], **size},
    }


def _without_ids(dataset: Any) -> Any:
    return dataset.map(lambda ids, images, labels: (images, labels))


def make_commuting(epochs: int = 2, steps: int = 4, global_batch: int = 64) -> Callable[[Any, Any], None]:
    """A Keras 2 `fit` program that is exact for every interleaving of asynchronous workers.

    The gradient of its loss does not depend on the variables, every batch is the same, and all numbers are dyadic (so
    `global_batch` must be a power of two), so that the final weights are the initial ones minus the learning rate times
    the sum of the gradients, in whatever order workers apply them.
    """
    return functools.partial(_train_commuting, epochs=epochs, steps=steps, global_batch=global_batch)


def _train_commuting(strategy: Any, record: Any, *, epochs: int, steps: int, global_batch: int) -> None:
    import numpy as np
    import tensorflow as tf

    keras = models.keras_module("tf_keras")
    data = digits.load(global_batch)
    targets = (data.labels[:, None] == np.arange(digits.CLASSES)).astype(np.float32)
    batch = tf.data.Dataset.from_tensors((data.images.reshape(-1, 64), targets)).repeat()

    def linear(target: Any, output: Any) -> Any:
        # The value is the target's and so the same for every interleaving; the gradient is minus the output's.
        return tf.reduce_sum(target * (1.0 + tf.stop_gradient(output) - output), axis=-1)

    with strategy.scope():
        model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(digits.CLASSES, kernel_initializer="ones")])
        model.compile(optimizer=keras.optimizers.SGD(0.5), loss=linear)
    model.fit(batch, epochs=epochs, steps_per_epoch=steps, verbose=0, callbacks=[record.keras_callback(model)])


train = make()
