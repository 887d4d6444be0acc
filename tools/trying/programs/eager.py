"""Programs without `tf.function`: every operation runs at once, replica by replica."""

import numpy as np
import tensorflow as tf

BATCH, STEPS, RATE = 8, 2, 0.1
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN


def context():
    return tf.distribute.get_replica_context()


def batches(strategy):
    """Each step's batch, divided by hand as some do: a slice for each replica."""
    random = np.random.default_rng(2)
    x = random.normal(size=(STEPS, BATCH, 3)).astype("float32")
    y = (x.sum(axis=2, keepdims=True) + 0.2 * random.normal(size=(STEPS, BATCH, 1))).astype("float32")
    for features, targets in zip(x, y, strict=True):
        yield tuple(_divided(strategy, values) for values in (features, targets))


def _divided(strategy, values):
    def part(where):
        share = len(values) // where.num_replicas_in_sync
        begin = where.replica_id_in_sync_group * share
        return tf.constant(values[begin : begin + share])

    return strategy.experimental_distribute_values_from_function(part)


def weights(strategy):
    with strategy.scope():
        w = tf.Variable([[0.5], [-0.3], [0.2]], name="w", aggregation=tf.VariableAggregation.MEAN)
        b = tf.Variable([0.0], name="b", aggregation=tf.VariableAggregation.MEAN)
    return w, b


def loop(strategy, record, replica_step, variables):
    for x, y in batches(strategy):
        losses = strategy.run(replica_step, args=(x, y))
        record.step(loss=strategy.reduce(SUM, losses, axis=None), variables=variables)


# ---- wrong ----


def train_mean_then_sum(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))  # guilty
        for variable, gradient in zip([w, b], tape.gradient(loss, [w, b])):
            variable.assign_sub(RATE * context().all_reduce(SUM, gradient))
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_clipped_by_value(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.matmul(x, w) + b - y)) / BATCH
        for variable, gradient in zip([w, b], tape.gradient(loss, [w, b])):
            gradient = tf.clip_by_value(gradient, -0.2, 0.2)  # guilty
            variable.assign_sub(RATE * context().all_reduce(SUM, gradient))
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_branch_on_local_loss(strategy, record):
    """A branch of Python, taken by each replica for itself."""
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.matmul(x, w) + b - y)) / BATCH
        gradients = tape.gradient(loss, [w, b])
        if loss * strategy.num_replicas_in_sync > 1.5:  # guilty
            gradients = [0.1 * gradient for gradient in gradients]  # guilty
        for variable, gradient in zip([w, b], gradients):
            variable.assign_sub(RATE * context().all_reduce(SUM, gradient))
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_standardized(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        x = (x - tf.reduce_mean(x, axis=0)) / tf.math.reduce_std(x, axis=0)  # guilty
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.matmul(x, w) + b - y)) / BATCH
        for variable, gradient in zip([w, b], tape.gradient(loss, [w, b])):
            variable.assign_sub(RATE * context().all_reduce(SUM, gradient))
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_bias_forgotten(strategy, record):
    """The gradient of one of two variables is not summed."""
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.matmul(x, w) + b - y)) / BATCH
        by_w, by_b = tape.gradient(loss, [w, b])
        w.assign_sub(RATE * context().all_reduce(SUM, by_w))
        b.assign_sub(RATE * by_b)  # guilty
        return loss

    loop(strategy, record, replica_step, [w, b])


# ---- right ----


def train_right(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.matmul(x, w) + b - y)) / BATCH
        for variable, gradient in zip([w, b], tape.gradient(loss, [w, b])):
            variable.assign_sub(RATE * context().all_reduce(SUM, gradient))
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_right_clipped_by_value(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.matmul(x, w) + b - y)) / BATCH
        for variable, gradient in zip([w, b], tape.gradient(loss, [w, b])):
            gradient = context().all_reduce(SUM, gradient)
            variable.assign_sub(RATE * tf.clip_by_value(gradient, -0.2, 0.2))
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_right_branch(strategy, record):
    """A branch of Python that all take alike."""
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.matmul(x, w) + b - y)) / BATCH
        gradients = tape.gradient(loss, [w, b])
        if context().all_reduce(SUM, loss) > 1.5:
            gradients = [0.1 * gradient for gradient in gradients]
        for variable, gradient in zip([w, b], gradients):
            variable.assign_sub(RATE * context().all_reduce(SUM, gradient))
        return loss

    loop(strategy, record, replica_step, [w, b])
