"""Every optimizer of a Keras, side by side on variables of their own, and an embedding's sparse gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from scenarios.programs import models

# Has a test of its own.
EXCEPT = "Nadam"
_NAMES = (
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "Adamax",
    "AdamW",
    "Ftrl",
    "Lamb",
    "Lion",
    "Muon",
    "RMSprop",
    "ScheduleFreeAdamW",
    "SGD",
)
# Replicas do not divide the second batch, and of the third most get nothing.
_BATCHES = (12, 7, 1)


def make(flavour: models.Flavour, *names: str) -> Callable[[Any, Any], None]:
    """Fits an [8, 4] variable with each of these optimizers, by default all, in four steps; records slots as well."""
    return functools.partial(_train, flavour=flavour, names=names or _NAMES)


def make_sparse(flavour: models.Flavour) -> Callable[[Any, Any], None]:
    """Exact: an embedding and a dense layer, whose gradients are `tf.IndexedSlices` of uneven shares."""
    return functools.partial(_sparse, flavour=flavour)


def make_positions(flavour: models.Flavour) -> Callable[[Any, Any], None]:
    """A table of positions, of which every replica looks up all rows, and Adam."""
    return functools.partial(_positions, flavour=flavour)


def _train(strategy: Any, record: Any, *, flavour: models.Flavour, names: tuple[str, ...]) -> None:
    import numpy as np
    import tensorflow as tf

    keras = models.keras_module(flavour)
    start = np.linspace(0.5, 1, 32, dtype=np.float32).reshape(8, 4)
    with strategy.scope():
        pairs = []
        for name in names:
            if hasattr(keras.optimizers, name):
                variable = keras.Variable(start, name=name) if flavour == "keras" else tf.Variable(start, name=name)
                pairs.append((getattr(keras.optimizers, name)(), variable))
                pairs[-1][0].build([variable])

    def replica_step(x: Any) -> None:
        for optimizer, variable in pairs:
            with tf.GradientTape() as tape:
                weights = tf.convert_to_tensor(variable)
                tape.watch(weights)
                losses = tf.reduce_sum(tf.square(x @ tf.transpose(weights) - 1.0), axis=1)
                loss = tf.nn.compute_average_loss(losses, global_batch_size=12)
            optimizer.apply_gradients([(tape.gradient(loss, weights), variable)])

    @tf.function
    def step(x: Any) -> None:
        strategy.run(replica_step, args=(x,))

    x = (np.arange(192, dtype=np.float32) % 5).reshape(48, 4)
    for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(12)):
        step(batch)
        recorded: dict[str, Any] = {}
        for optimizer, variable in pairs:
            own = optimizer.variables
            own = own() if callable(own) else own
            name = type(optimizer).__name__
            recorded |= {f"{name}/{index}": value for index, value in enumerate([variable, *own])}
        record.step(variables=recorded)


def _sparse(strategy: Any, record: Any, *, flavour: models.Flavour) -> None:
    import numpy as np
    import tensorflow as tf

    keras = models.keras_module(flavour)
    with strategy.scope():
        embedding = keras.layers.Embedding(8, 2, embeddings_initializer="ones")
        dense = keras.layers.Dense(1, kernel_initializer="ones")
        model = keras.Sequential([keras.Input((3,), dtype="int32"), embedding, keras.layers.Flatten(), dense])
        optimizer = keras.optimizers.SGD(0.125)
        optimizer.build(model.trainable_variables)

    def replica_step(tokens: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(model(tokens)[:, 0], global_batch_size=8)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function(reduce_retracing=True)
    def step(tokens: Any) -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, args=(tokens,)), axis=None)

    tokens = (np.arange(3 * sum(_BATCHES)) * 7 % 8).astype(np.int32).reshape(-1, 3)
    whole = tf.data.Dataset.from_tensor_slices(tokens)
    pieces = [whole.skip(sum(_BATCHES[:i])).take(size).batch(size) for i, size in enumerate(_BATCHES)]
    data = functools.reduce(lambda left, right: left.concatenate(right), pieces)
    for batch in strategy.experimental_distribute_dataset(data):
        record.step(loss=step(batch), variables=models.variables_of(model, optimizer))


def _positions(strategy: Any, record: Any, *, flavour: models.Flavour) -> None:
    import numpy as np
    import tensorflow as tf

    keras = models.keras_module(flavour)
    with strategy.scope():
        table = tf.Variable(np.ones((3, 2), np.float32), name="positions")
        optimizer = keras.optimizers.Adam(0.125)
        optimizer.build([table])

    def replica_step(x: Any) -> None:
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum(x * tf.reduce_sum(tf.gather(table, tf.range(3)), axis=1), axis=1)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=12)
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])

    x = (np.arange(144, dtype=np.float32) % 5).reshape(48, 3)
    for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(12)):
        strategy.run(replica_step, args=(batch,))
        own = optimizer.variables
        slots = own() if callable(own) else own
        record.step(variables={str(index): value for index, value in enumerate([table, *slots])})
