"""Batches that the replicas do not divide: a shorter last one, and one of which some replica gets nothing."""

import numpy as np
import tensorflow as tf

BATCH, RATE = 8, 0.1
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN


def context():
    return tf.distribute.get_replica_context()


def dataset(examples):
    random = np.random.default_rng(0)
    x = random.normal(size=(examples, 3)).astype("float32")
    y = (2.0 * x[:, :1] + np.arange(examples)[:, None] / examples).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)


def weights(strategy):
    with strategy.scope():
        w = tf.Variable([[0.5], [-0.3], [0.2]], name="w", aggregation=tf.VariableAggregation.MEAN)
        b = tf.Variable([0.0], name="b", aggregation=tf.VariableAggregation.MEAN)
    return w, b


def descend(variables, gradients, how):
    for variable, gradient in zip(variables, context().all_reduce(how, gradients)):
        variable.assign_sub(RATE * gradient)


def loop(strategy, record, replica_step, variables, examples, how=SUM):
    """Of 21 examples the last five are 3 and 2; of 17 the last one is one replica's, and the other has none."""

    @tf.function
    def train_step(x, y):
        return strategy.reduce(how, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(dataset(examples)):
        record.step(loss=train_step(x, y), variables=variables)


# ---- wrong ----


def train_mean_of_means(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w + b - y) ** 2)  # guilty
        descend([w, b], tape.gradient(loss, [w, b]), MEAN)
        return loss

    loop(strategy, record, replica_step, [w, b], 21, MEAN)


def train_average_loss_guesses(strategy, record):
    """Without the size of the global batch it is taken to be the replica's times the replicas."""
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(losses)  # guilty
        descend([w, b], tape.gradient(loss, [w, b]), SUM)
        return loss

    loop(strategy, record, replica_step, [w, b], 21)


def train_nothing_is_nan(strategy, record):
    """The mean of no examples."""
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w + b - y) ** 2) / strategy.num_replicas_in_sync  # guilty
        descend([w, b], tape.gradient(loss, [w, b]), SUM)
        return loss

    loop(strategy, record, replica_step, [w, b], 17)


def train_nothing_counts_as_zero(strategy, record):
    """The mean of no examples is guarded, and counts as much as the others."""
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            errors = tf.reduce_sum((x @ w + b - y) ** 2)
            mean = tf.math.divide_no_nan(errors, tf.cast(tf.shape(x)[0], tf.float32))  # guilty
            loss = mean / strategy.num_replicas_in_sync  # guilty
        descend([w, b], tape.gradient(loss, [w, b]), SUM)
        return loss

    loop(strategy, record, replica_step, [w, b], 17)


def train_accuracy_of_replicas(strategy, record):
    """The training is right; the share of good predictions is a mean over the replicas."""
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            errors = x @ w + b - y
            loss = tf.reduce_sum(errors**2) / BATCH
        descend([w, b], tape.gradient(loss, [w, b]), SUM)
        return loss, tf.reduce_mean(tf.abs(errors))  # guilty

    @tf.function
    def train_step(x, y):
        losses, errors = strategy.run(replica_step, args=(x, y))
        error = strategy.reduce(MEAN, errors, axis=None)  # guilty
        return strategy.reduce(SUM, losses, axis=None), error

    for x, y in strategy.experimental_distribute_dataset(dataset(21)):
        loss, error = train_step(x, y)
        record.step(loss=loss, variables=[w, b], metrics={"mae": error})


# ---- right ----


def train_right_counted(strategy, record):
    """The number of examples is counted over all replicas."""
    w, b = weights(strategy)

    def replica_step(x, y):
        count = context().all_reduce(SUM, tf.cast(tf.shape(x)[0], tf.float32))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ w + b - y) ** 2) / count
        descend([w, b], tape.gradient(loss, [w, b]), SUM)
        return loss

    loop(strategy, record, replica_step, [w, b], 21)


def train_right_counted_empty(strategy, record):
    """As above, and one replica has no examples at the end."""
    w, b = weights(strategy)

    def replica_step(x, y):
        count = context().all_reduce(SUM, tf.cast(tf.shape(x)[0], tf.float32))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ w + b - y) ** 2) / count
        descend([w, b], tape.gradient(loss, [w, b]), SUM)
        return loss

    loop(strategy, record, replica_step, [w, b], 17)


def train_right_constant(strategy, record):
    """Always divided by the size of a full batch."""
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        descend([w, b], tape.gradient(loss, [w, b]), SUM)
        return loss

    loop(strategy, record, replica_step, [w, b], 17)


def train_right_weighted_means(strategy, record):
    """Means of replicas, weighted by their shares of the examples."""
    w, b = weights(strategy)

    def replica_step(x, y):
        own = tf.cast(tf.shape(x)[0], tf.float32)
        share = own / context().all_reduce(SUM, own)
        with tf.GradientTape() as tape:
            loss = share * tf.reduce_mean((x @ w + b - y) ** 2)
        descend([w, b], tape.gradient(loss, [w, b]), SUM)
        return loss

    loop(strategy, record, replica_step, [w, b], 21)
