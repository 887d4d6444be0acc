"""A training that draws random numbers in its replicas, and its examples without a seed; and mistakes in it."""

from __future__ import annotations

import functools
from typing import Any

from harness.subject.program import Program

MISTAKES = (
    ("summed", True),  # in the quick profile test_verify.py has an update that is made twice
    ("mask_scaled", True),
    ("row_twice", True),
    ("rows_mixed", True),
    ("drawn_again", False),
    ("other_distribution", True),
    ("larger_start", True),
    ("same_masks", True),
    ("decays_twice", True),
)
"""Each with whether it belongs to the full profile."""


def random_steps(kind: str, mistake: str = "") -> Program:
    """Eight steps of logistic regression, with dropout or augmentation in each replica.

    Args:
        kind: `dropout` or `augmentation`.
        mistake: one of `MISTAKES`, made with several replicas only; none if empty.
    """
    return Program.of(functools.partial(_random_steps, kind=kind, mistake=mistake))


def _random_steps(strategy: Any, record: Any, *, kind: str, mistake: str) -> None:
    import numpy as np
    import tensorflow as tf

    count = strategy.num_replicas_in_sync
    wrong = mistake if count > 1 else ""
    x, y, start = _data()
    with strategy.scope():
        w = tf.Variable(start * (2 if wrong == "larger_start" else 1), name="w")
    number = tf.Variable(0, dtype=tf.int32, name="number")

    def replica_step(x: Any, y: Any) -> Any:
        if wrong == "row_twice":
            x, y = tf.concat([x[:1], x[:-1]], 0), tf.concat([y[:1], y[:-1]], 0)
        mask = _drawn(x, number, mistake, wrong)
        x = x + 0.1 * mask if kind == "augmentation" else tf.where(mask < 0.5, x, 0.0) * 2
        if wrong == "mask_scaled":
            x *= 0.5
        with tf.GradientTape() as tape:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(y, x @ w)
            loss = tf.reduce_sum(losses) / 8
        gradient = tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, w))
        w.assign_sub(0.1 * (2.0 if wrong == "summed" else 1.0) * gradient)
        return loss

    @tf.function
    def step(batch: Any) -> Any:
        loss = strategy.reduce("SUM", strategy.run(replica_step, batch), axis=None)
        for _ in range(2 if wrong == "decays_twice" else 1):
            w.assign_sub(1e-3 * w)
        return loss

    for at in range(0, 64, 8):
        parts = np.split(x[at : at + 8], count), np.split(y[at : at + 8], count)
        record.step(loss=step(_distributed(strategy, parts, shift=int(wrong == "rows_mixed"))), variables=[w])
        number.assign_add(1)


def random_weights(mistake: str = "") -> Program:
    """Six steps of a model whose weights get noise of each replica's own, three in each call of a `tf.function`.

    Args:
        mistake: `by_number`, whereby a term of the loss grows with the replica's number; none if empty.
    """
    return Program.of(functools.partial(_random_weights, mistake=mistake))


def _random_weights(strategy: Any, record: Any, *, mistake: str) -> None:
    import tensorflow as tf

    x, y, start = _data()
    data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(8)
    batches = iter(strategy.experimental_distribute_dataset(data))
    with strategy.scope():
        w = tf.Variable(start, name="w")

    def replica_step(x: Any, y: Any) -> None:
        context = tf.distribute.get_replica_context()
        with tf.GradientTape() as tape:
            noisy = w + 0.1 * tf.random.normal(tf.shape(w))
            losses = tf.nn.sigmoid_cross_entropy_with_logits(y, x @ noisy)
            term = tf.nn.scale_regularization_loss(tf.nn.l2_loss(noisy))
            if mistake == "by_number":
                term *= 1.0 + tf.cast(context.replica_id_in_sync_group, tf.float32)
            loss = tf.nn.compute_average_loss(losses[:, 0]) + 0.01 * term
        w.assign_sub(0.1 * context.all_reduce("sum", tape.gradient(loss, w)))

    @tf.function
    def steps() -> None:
        for _ in tf.range(3):
            strategy.run(replica_step, next(batches))

    for _ in range(2):
        steps()
        record.step(variables=[w])


def random_resuming(mistake: str = "") -> Program:
    """Six steps of logistic regression with dropout and momentum, which is saved after each of them.

    Args:
        mistake: `slots`, whereby the momentum is not saved; none if empty.
    """
    return Program.of(functools.partial(_random_resuming, mistake=mistake))


def _random_resuming(strategy: Any, record: Any, *, mistake: str) -> None:
    import numpy as np
    import tensorflow as tf

    random = np.random.RandomState(4)
    x, y = random.randn(6, 8, 6).astype("f4"), random.randint(0, 2, (6, 8, 1)).astype("f4")
    with strategy.scope():
        w = tf.Variable(random.randn(6, 1).astype("f4"), name="w")
        momentum = tf.Variable(tf.zeros([6, 1]), name="w/momentum")
    done = tf.Variable(0)

    def replica_step(x: Any, y: Any) -> None:
        x = tf.where(tf.random.uniform(tf.shape(x)) < 0.5, x, 0.0) * 2
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(y, x @ w)) / 8
        gradient = tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, w))
        momentum.assign(0.9 * momentum + gradient)
        w.assign_sub(0.1 * momentum)

    @tf.function
    def step(x: Any, y: Any) -> None:
        strategy.run(replica_step, args=(x, y))

    saved = {"w": w, "done": done} if mistake == "slots" else {"w": w, "momentum": momentum, "done": done}
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(**saved), str(record.directory), max_to_keep=2)
    manager.restore_or_initialize()
    give = strategy.experimental_distribute_values_from_function
    for number in range(int(done.numpy()), 6):
        parts = [np.split(each[number], strategy.num_replicas_in_sync) for each in (x, y)]
        batch = [give(lambda context, part=part: tf.constant(part[context.replica_id_in_sync_group])) for part in parts]
        step(*batch)
        record.step(variables=[w])
        done.assign(number + 1)
        manager.save()


def _data() -> tuple[Any, Any, Any]:
    """Features and labels in an order that nobody can seed, and a first weight."""
    import os

    import numpy as np

    order = np.random.RandomState(int.from_bytes(os.urandom(3), "little")).permutation(64)
    random = np.random.RandomState(4)
    x, y = random.randn(64, 6).astype("f4")[order], random.randint(0, 2, (64, 1)).astype("f4")[order]
    return x, y, random.randn(6, 1).astype("f4")


def _drawn(x: Any, number: Any, mistake: str, wrong: str) -> Any:
    """A number for each feature of each example; where the seed is what is wrong, by a seed."""
    import tensorflow as tf

    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    if mistake in ("drawn_again", "same_masks"):
        seeds = {"drawn_again": [number + replica, 7], "same_masks": [number, 7], "": [number, replica]}
        return tf.random.stateless_uniform(tf.shape(x), tf.stack(seeds[wrong]))
    return tf.random.uniform(tf.shape(x), maxval=0.5 if wrong == "other_distribution" else 1.0)


def _distributed(strategy: Any, parts: Any, shift: int) -> tuple[Any, ...]:
    """A batch that is handed to replicas by hand, the labels as many replicas further."""
    import tensorflow as tf

    def of(context: Any, which: int) -> Any:
        return tf.constant(parts[which][(context.replica_id_in_sync_group + shift * which) % len(parts[which])])

    give = strategy.experimental_distribute_values_from_function
    return tuple(give(lambda context, which=which: of(context, which)) for which in (0, 1))
