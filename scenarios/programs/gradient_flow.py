"""A custom loop on plain variables that reduces, clips or accumulates its gradients by hand, right and wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from scenarios.programs import digits, margins

Form = Literal["clip_reduced", "clip_local", "accumulate", "averages", "outside", "not_reduced"]
Clip = Literal["value", "norm", "global_norm"]


def make(form: Form, clip: Clip = "value") -> Callable[[Any, Any], None]:
    """A training program; all but the norms are exact.

    Right are `clip_reduced` (the sum over replicas is clipped), `accumulate` (every second step applies the mean of two
    batches), `averages` (a moving average of the variables, updated once a step) and `outside` (the step size is a
    tensor that the replica function captures). Wrong are `clip_local` (clipped before the sum) and `not_reduced` (each
    replica applies its own gradient to its own copy).
    """
    return functools.partial(_train, form=form, clip=clip)


def _train(strategy: Any, record: Any, *, form: Form, clip: Clip) -> None:
    import tensorflow as tf

    distributed = strategy.experimental_distribute_dataset(margins.dataset())
    first = tf.VariableAggregation.ONLY_FIRST_REPLICA
    aggregation = tf.VariableAggregation.NONE if form == "not_reduced" else first
    with strategy.scope():
        shapes = {"weights": (64, digits.CLASSES), "bias": (digits.CLASSES,)}
        variables = [tf.Variable(tf.zeros(shape), name=name, aggregation=aggregation) for name, shape in shapes.items()]
        extra = [tf.Variable(tf.zeros(s), name=f"{n}_extra", aggregation=first) for n, s in shapes.items()]
        steps = tf.Variable(0, dtype=tf.int64, name="steps", aggregation=first)
    captured = tf.constant(0.5)

    def replica_step(ids: Any, pixels: Any, targets: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum(margins.hinge(pixels @ variables[0] + variables[1], targets), axis=1)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=margins.GLOBAL_BATCH)
        gradients = tape.gradient(loss, variables)
        updates = _clip(gradients, clip) if form == "clip_local" else gradients
        if form != "not_reduced":
            updates = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, updates)
        if form == "clip_reduced":
            updates = _clip(updates, clip)
        _apply(form, variables, extra, updates, steps, captured)
        return loss, gradients, ids

    @tf.function(reduce_retracing=True)
    def train_step(batch: Any) -> Any:
        losses, gradients, ids = strategy.run(replica_step, args=batch)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None), gradients, ids

    recorded = [*variables, *extra, steps]
    for batch in distributed:
        loss, gradients, ids = train_step(batch)
        named = dict(zip(shapes, gradients, strict=True))
        record.step(loss=loss, gradients=named, variables=recorded, examples=ids)
    record.final(variables=recorded)


def _clip(gradients: Any, clip: Clip) -> Any:
    import tensorflow as tf

    if clip == "value":
        return [tf.clip_by_value(gradient, -0.25, 0.25) for gradient in gradients]
    if clip == "norm":
        return [tf.clip_by_norm(gradient, 0.5) for gradient in gradients]
    return tf.clip_by_global_norm(gradients, 0.5)[0]


def _apply(form: Form, variables: Any, extra: Any, updates: Any, steps: Any, captured: Any) -> None:
    """Every replica assigns the same values, and the variables take the first replica's."""
    import tensorflow as tf

    steps.assign_add(1)
    for variable, more, update in zip(variables, extra, updates, strict=True):
        if form == "accumulate":
            due = tf.cast(steps % 2 == 0, tf.float32)
            total = more + update
            variable.assign_sub(due * total / 2)
            more.assign((1 - due) * total)
            continue
        step = captured * update if form == "outside" else update
        variable.assign_sub(step)
        if form == "averages":
            more.assign(0.5 * more + 0.5 * variable)
