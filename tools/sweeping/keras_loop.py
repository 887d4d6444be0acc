"""A custom loop around a Keras model that adds up losses, gradients and metrics over replicas. Runs in tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tools.sweeping.training import batches, keras_optimizer, mine, named, reported, total


def train_model(
    strategy: Any,
    record: Any,
    make: Callable[[], Any],
    losses: Callable[[Any, Any], Any],
    data: tuple[Any, Any],
    *,
    batch: int,
    split: str,
    optimizer: str,
    rate: float,
    report: str,
    metrics: Callable[[Any, Any], Mapping[str, Any]] | None = None,
) -> None:
    """Train once over the data, and record everything.

    Args:
        strategy: of the run.
        record: of the run.
        make: builds the model.
        losses: of outputs and targets, one for each example.
        data: inputs and targets, one row for each example.
        batch: examples of a global batch.
        split: as of `batches`.
        optimizer: as of `keras_optimizer`.
        rate: as of `keras_optimizer`.
        report: as of `reported`.
        metrics: sums over a replica's examples, of outputs and targets.
    """
    import numpy as np
    import tensorflow as tf

    with strategy.scope():
        model = make()
        updates = keras_optimizer(optimizer, rate)
        updates.build(model.trainable_variables)

    def replica_step(*columns: Any) -> Any:
        ids, x, y = mine(split, columns)
        with tf.GradientTape() as tape:
            outputs = model(x, training=True)
            value = tf.nn.compute_average_loss(losses(outputs, y), global_batch_size=batch)
        gradients = tape.gradient(value, model.trainable_variables)
        updates.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        sums = {} if metrics is None else dict(metrics(outputs, y))
        return value, [tf.convert_to_tensor(each) for each in gradients], sums, ids

    @tf.function(reduce_retracing=True)
    def step(columns: Any) -> Any:
        values, gradients, sums, ids = strategy.run(replica_step, args=columns)
        return values, total(strategy, values), total(strategy, gradients), total(strategy, sums), ids

    variables = [*model.variables, *updates.variables]
    for columns in batches(strategy, (np.arange(len(data[0])), *data), batch, split):
        parts, whole, gradients, sums, ids = step(columns)
        record.step(
            loss=reported(report, parts, whole),
            gradients=named(model, gradients),
            variables=variables,
            metrics={name: each / batch for name, each in sums.items()} or None,
            examples=ids,
        )
    record.final(variables=variables, predictions=model(data[0][:5], training=False))
