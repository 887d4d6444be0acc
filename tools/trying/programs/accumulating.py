"""Gradients that are accumulated over several batches, clipped or normalised, before they are applied; by hand."""

import numpy as np
import tensorflow as tf

BATCH, SLICES, UPDATES, RATE = 8, 2, 2, 0.1
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN


def context():
    return tf.distribute.get_replica_context()


def dataset():
    random = np.random.default_rng(3)
    examples = BATCH * SLICES * UPDATES
    x = random.normal(size=(examples, 4)).astype("float32")
    y = np.where(x.sum(axis=1, keepdims=True) > 0, 2.0, -1.0).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)


def weights(strategy):
    start = np.random.default_rng(4).normal(size=(4, 3)).astype("float32")
    with strategy.scope():
        w = tf.Variable(start, name="w", aggregation=tf.VariableAggregation.MEAN)
        v = tf.Variable(start[:3, :1], name="v", aggregation=tf.VariableAggregation.MEAN)
    return w, v


def accumulators(strategy, variables, aggregation=tf.VariableAggregation.SUM):
    with strategy.scope():
        return [
            tf.Variable(tf.zeros_like(variable), trainable=False, name="accumulated", aggregation=aggregation)
            for variable in variables
        ]


def loop(strategy, record, add, apply, variables):
    """An update after every two batches."""

    @tf.function
    def slice_step(x, y):
        return strategy.reduce(SUM, strategy.run(add, args=(x, y)), axis=None)

    @tf.function
    def update():
        strategy.run(apply)

    for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(dataset()), start=1):
        loss = slice_step(x, y)
        if number % SLICES == 0:
            update()
        record.step(loss=loss, variables=variables)


def plain_loop(strategy, record, replica_step, variables):
    @tf.function
    def train_step(x, y):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(dataset().take(3)):
        record.step(loss=train_step(x, y), variables=variables)


def loss_and_gradients(x, y, w, v):
    with tf.GradientTape() as tape:
        errors = tf.reduce_sum((tf.tanh(x @ w) @ v - y) ** 2, axis=1)
        loss = tf.nn.compute_average_loss(errors, global_batch_size=BATCH)
    return loss, tape.gradient(loss, [w, v])


# ---- wrong ----


def train_divided_by_replicas_too(strategy, record):
    w, v = weights(strategy)
    sums = accumulators(strategy, [w, v])

    def add(x, y):
        loss, gradients = loss_and_gradients(x, y, w, v)
        for total, gradient in zip(sums, gradients):
            total.assign_add(gradient)
        return loss

    def apply():
        for variable, total in zip([w, v], sums):
            mean = total / (SLICES * strategy.num_replicas_in_sync)  # guilty
            variable.assign_sub(RATE * mean)
            total.assign(tf.zeros_like(total) / strategy.num_replicas_in_sync)

    loop(strategy, record, add, apply, [w, v])


def train_first_replica_accumulates(strategy, record):
    w, v = weights(strategy)
    sums = accumulators(strategy, [w, v], tf.VariableAggregation.ONLY_FIRST_REPLICA)  # guilty

    def add(x, y):
        loss, gradients = loss_and_gradients(x, y, w, v)
        for total, gradient in zip(sums, gradients):
            total.assign_add(gradient)  # guilty
        return loss

    def apply():
        for variable, total in zip([w, v], sums):
            variable.assign_sub(RATE * total / SLICES)
            total.assign(tf.zeros_like(total))

    loop(strategy, record, add, apply, [w, v])


def train_reduced_and_summed(strategy, record):
    """Gradients are reduced before variables that sum what they are given."""
    w, v = weights(strategy)
    sums = accumulators(strategy, [w, v])  # guilty

    def add(x, y):
        loss, gradients = loss_and_gradients(x, y, w, v)
        gradients = context().all_reduce(SUM, gradients)
        for total, gradient in zip(sums, gradients):
            total.assign_add(gradient)  # guilty
        return loss

    def apply():
        for variable, total in zip([w, v], sums):
            variable.assign_sub(RATE * total / SLICES)
            total.assign(tf.zeros_like(total))

    loop(strategy, record, add, apply, [w, v])


def train_accumulated_means(strategy, record):
    w, v = weights(strategy)
    sums = accumulators(strategy, [w, v])

    def add(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.tanh(x @ w) @ v - y) ** 2)  # guilty
        for total, gradient in zip(sums, tape.gradient(loss, [w, v])):
            total.assign_add(gradient)
        return loss

    def apply():
        for variable, total in zip([w, v], sums):
            variable.assign_sub(RATE * total / SLICES)
            total.assign(tf.zeros_like(total))

    loop(strategy, record, add, apply, [w, v])


def train_clipped_by_norm(strategy, record):
    w, v = weights(strategy)

    def replica_step(x, y):
        loss, gradients = loss_and_gradients(x, y, w, v)
        gradients = [tf.clip_by_norm(gradient, 0.2) for gradient in gradients]  # guilty
        for variable, gradient in zip([w, v], context().all_reduce(SUM, gradients)):
            variable.assign_sub(RATE * gradient)
        return loss

    plain_loop(strategy, record, replica_step, [w, v])


def train_clipped_by_global_norm(strategy, record):
    w, v = weights(strategy)

    def replica_step(x, y):
        loss, gradients = loss_and_gradients(x, y, w, v)
        gradients, _ = tf.clip_by_global_norm(gradients, 0.25)  # guilty
        for variable, gradient in zip([w, v], context().all_reduce(SUM, gradients)):
            variable.assign_sub(RATE * gradient)
        return loss

    plain_loop(strategy, record, replica_step, [w, v])


def train_clipped_by_unit(strategy, record):
    """Clipped relative to the weights, unit by unit, before the sum."""
    w, v = weights(strategy)

    def replica_step(x, y):
        loss, gradients = loss_and_gradients(x, y, w, v)
        limits = [0.05 * tf.norm(variable, axis=0, keepdims=True) for variable in (w, v)]
        norms = [tf.norm(gradient, axis=0, keepdims=True) for gradient in gradients]  # guilty
        gradients = [
            gradient * tf.minimum(1.0, limit / norm) for gradient, limit, norm in zip(gradients, limits, norms)
        ]
        for variable, gradient in zip([w, v], context().all_reduce(SUM, gradients)):
            variable.assign_sub(RATE * gradient)
        return loss

    plain_loop(strategy, record, replica_step, [w, v])


def train_normalised_gradient(strategy, record):
    """A step of fixed length, along the sum of what each replica has normalised."""
    w, v = weights(strategy)

    def replica_step(x, y):
        loss, gradients = loss_and_gradients(x, y, w, v)
        gradients = [tf.math.l2_normalize(gradient) for gradient in gradients]  # guilty
        for variable, gradient in zip([w, v], context().all_reduce(MEAN, gradients)):
            variable.assign_sub(RATE * gradient)
        return loss

    plain_loop(strategy, record, replica_step, [w, v])


# ---- right ----


def train_right_accumulated(strategy, record):
    w, v = weights(strategy)
    sums = accumulators(strategy, [w, v])

    def add(x, y):
        loss, gradients = loss_and_gradients(x, y, w, v)
        for total, gradient in zip(sums, gradients):
            total.assign_add(gradient)
        return loss

    def apply():
        for variable, total in zip([w, v], sums):
            variable.assign_sub(RATE * total / SLICES)
            total.assign(tf.zeros_like(total))

    loop(strategy, record, add, apply, [w, v])


def train_right_accumulated_locally(strategy, record):
    """Every replica adds up its own parts, which are summed once for each update."""
    w, v = weights(strategy)
    with strategy.scope():
        sums = [
            tf.Variable(
                tf.zeros_like(variable),
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
            )
            for variable in (w, v)
        ]

    def add(x, y):
        loss, gradients = loss_and_gradients(x, y, w, v)
        for total, gradient in zip(sums, gradients):
            total.assign_add(gradient / SLICES)
        return loss

    def apply():
        totals = context().all_reduce(SUM, [total.read_value() for total in sums])
        for variable, total in zip([w, v], totals):
            variable.assign_sub(RATE * total)
        for total in sums:
            total.assign(tf.zeros_like(total))

    loop(strategy, record, add, apply, [w, v])


def train_right_clipped_after(strategy, record):
    w, v = weights(strategy)

    def replica_step(x, y):
        loss, gradients = loss_and_gradients(x, y, w, v)
        gradients, _ = tf.clip_by_global_norm(context().all_reduce(SUM, gradients), 0.25)
        for variable, gradient in zip([w, v], gradients):
            variable.assign_sub(RATE * gradient)
        return loss

    plain_loop(strategy, record, replica_step, [w, v])


def train_right_normalised_after(strategy, record):
    w, v = weights(strategy)

    def replica_step(x, y):
        loss, gradients = loss_and_gradients(x, y, w, v)
        gradients = [tf.math.l2_normalize(each) for each in context().all_reduce(SUM, gradients)]
        for variable, gradient in zip([w, v], gradients):
            variable.assign_sub(RATE * gradient)
        return loss

    plain_loop(strategy, record, replica_step, [w, v])
