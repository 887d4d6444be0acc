"""Custom loops through `ClusterCoordinator`, as in TensorFlow's "Parameter server training" tutorial."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from scenarios.programs import digits, models


def make_commuting(
    epochs: int = 2,
    steps: int = 8,
    data: Literal["arguments", "per_worker_dataset"] = "arguments",
    global_batch: int = 64,
) -> Callable[[Any, Any], None]:
    """A training program on plain variables that is exact for every interleaving of workers; `join` once per epoch.

    The loss is `mean(sum(x @ w * target))`, so a gradient never depends on a variable, updates commute, and the
    final variables are `w0 - sum of gradients`, whoever applies them. One lost or repeated update is visible in
    `weights` and countable in `updates`. With `arguments` the coordinator hands each closure its own batch; with
    `per_worker_dataset` each worker reads its own dataset, whose batches are all the same because it is not
    determined how many each worker will take. `global_batch` must be a power of two.
    """
    return functools.partial(_train_commuting, epochs=epochs, steps=steps, data=data, global_batch=global_batch)


def _train_commuting(strategy: Any, record: Any, *, epochs: int, steps: int, data: str, global_batch: int) -> None:
    import numpy as np
    import tensorflow as tf

    coordinator = _coordinator(strategy)
    source = digits.load(steps * global_batch if data == "arguments" else global_batch)
    pixels = source.images.reshape(-1, 64)
    targets = (source.labels[:, None] == np.arange(digits.CLASSES)).astype(np.float32)
    with strategy.scope():
        weights = tf.Variable(tf.ones([64, digits.CLASSES]), name="weights")
        updates = tf.Variable(0, dtype=tf.int64, name="updates")

    def replica_step(x: Any, target: Any) -> Any:
        with tf.GradientTape() as tape:
            # Read once: with a partitioner `weights` is a ShardedVariable, whose pieces are read one by one.
            kernel = tf.convert_to_tensor(weights)
            tape.watch(kernel)
            loss = tf.reduce_sum(target * (x @ kernel)) / global_batch
        _subtract(weights, tape.gradient(loss, kernel))
        updates.assign_add(1)
        return loss

    @tf.function
    def argument_step(x: Any, target: Any) -> Any:
        return strategy.run(replica_step, args=(x, target))

    @tf.function
    def dataset_step(iterator: Any) -> Any:
        return strategy.run(replica_step, args=next(iterator))

    def dataset_fn() -> Any:
        return tf.data.Dataset.from_tensors((pixels, targets)).repeat()

    iterator = iter(coordinator.create_per_worker_dataset(dataset_fn)) if data == "per_worker_dataset" else None
    for _ in range(epochs):
        for step in range(steps):
            if iterator is not None:
                coordinator.schedule(dataset_step, args=(iterator,))
            else:
                piece = slice(step * global_batch, (step + 1) * global_batch)
                coordinator.schedule(argument_step, args=(pixels[piece], targets[piece]))
        coordinator.join()
        record.step(variables=[weights, updates])
    record.final(variables=[weights, updates])


def _subtract(variable: Any, delta: Any) -> None:
    """Subtract `delta` from a variable, or from each shard of a partitioned one its own rows."""
    shards = getattr(variable, "variables", None)
    if shards is None:
        variable.assign_sub(delta)
        return
    begin = 0
    for shard in shards:
        rows = shard.shape[0]
        shard.assign_sub(delta[begin : begin + rows])
        begin += rows


def make_model(
    flavour: models.Flavour = "tf_keras",
    model: models.ModelName = "cnn",
    optimizer: models.OptimizerName = "momentum",
    *,
    epochs: int = 2,
    examples: int = 192,
    global_batch: int = digits.GLOBAL_BATCH,
) -> Callable[[Any, Any], None]:
    """A training program with a Keras model that joins after each step, so that its steps are the reference's steps."""
    return functools.partial(
        _train_model,
        flavour=flavour,
        model_name=model,
        optimizer_name=optimizer,
        epochs=epochs,
        examples=examples,
        global_batch=global_batch,
    )


def _train_model(
    strategy: Any,
    record: Any,
    *,
    flavour: models.Flavour,
    model_name: models.ModelName,
    optimizer_name: models.OptimizerName,
    epochs: int,
    examples: int,
    global_batch: int,
) -> None:
    import tensorflow as tf

    keras = models.keras_module(flavour)
    coordinator = _coordinator(strategy)
    data = digits.load(examples)
    with strategy.scope():
        model = models.build_model(flavour, model_name)
        optimizer = models.build_optimizer(flavour, optimizer_name)
        optimizer.build(model.trainable_variables)
        loss_object = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=models.no_reduction(keras))
        accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")

    def replica_step(ids: Any, images: Any, labels: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.nn.compute_average_loss(loss_object(labels, logits), global_batch_size=global_batch)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        accuracy.update_state(labels, logits)
        return loss, ids

    @tf.function
    def train_step(ids: Any, images: Any, labels: Any) -> tuple[Any, Any]:
        losses, ids = strategy.run(replica_step, args=(ids, images, labels))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None), ids

    for _ in range(epochs):
        for start in range(0, examples, global_batch):
            piece = slice(start, start + global_batch)
            batch = (data.ids[piece], data.images[piece], data.labels[piece])
            result = coordinator.schedule(train_step, args=batch)
            coordinator.join()
            loss, ids = coordinator.fetch(result)
            record.step(
                loss=loss,
                examples=ids,
                variables=models.variables_of(model, optimizer),
                metrics={"accuracy": accuracy.result()},
            )
    predictions = model(data.images, training=False)
    record.final(variables=models.variables_of(model, optimizer), predictions=predictions)


class _Here:
    """What `ClusterCoordinator` offers, done at once in this process: the reference has no cluster to schedule on."""

    def schedule(self, fn: Callable[..., Any], args: tuple[Any, ...] = ()) -> Any:
        return fn(*args)

    def join(self) -> None:
        """Everything scheduled has already run."""

    def fetch(self, value: Any) -> Any:
        return value

    def create_per_worker_dataset(self, dataset_fn: Callable[[], Any]) -> Any:
        return dataset_fn()


def _coordinator(strategy: Any) -> Any:
    import tensorflow as tf

    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        return tf.distribute.coordinator.ClusterCoordinator(strategy)
    return _Here()


train = make_model()
