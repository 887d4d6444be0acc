"""Wrong: how many rows a replica has is not how many there are."""

import numpy as np
import tensorflow as tf
from plain_loops import (
    BATCH,
    MEAN,
    RATE,
    SUM,
    context,
    descend,
    gradients_of,
    on_plain,
    plain,
    plain_data,
    plain_loop,
    uneven_loop,
)


@on_plain()
def train_floor(strategy, x, y, variables):
    """Weighted by a rounded number of rows."""
    half = tf.cast(tf.shape(x)[0] // 3, tf.float32)
    loss, gradients = gradients_of(x, y, variables, half / BATCH)  # guilty
    descend(variables, gradients)
    return loss


@on_plain()
def train_halves(strategy, x, y, variables):
    """Half of the replica's examples count."""
    loss, gradients = gradients_of(x[1:], y[1:], variables)  # guilty
    descend(variables, gradients)
    return loss


@on_plain(drop=True)
def train_batch_of_replica(strategy, x, y, variables):
    """Divided by the replica's static number of rows."""
    loss, gradients = gradients_of(x, y, variables, 1.0 / int(x.shape[0]))  # guilty
    descend(variables, gradients)
    return loss


@on_plain()
def train_weight_by_rows(strategy, x, y, variables):
    """Weighted by the replica's number of rows."""
    count = tf.cast(tf.shape(x)[0], tf.float32)
    loss, gradients = gradients_of(x, y, variables, count / BATCH**2)  # guilty
    descend(variables, gradients)
    return loss


@on_plain()
def train_seeded_noise(strategy, x, y, variables):
    """Equal noise in every replica."""
    noise = tf.random.stateless_normal(tf.shape(x), seed=[1, 2])  # guilty
    loss, gradients = gradients_of(x + 0.1 * noise, y, variables)
    descend(variables, gradients)
    return loss


@on_plain()
def train_cast_count(strategy, x, y, variables):
    """Half of a number of rows, rounded by a cast."""
    half = tf.cast(tf.cast(tf.cast(tf.shape(x)[0], tf.float32) * 0.5, tf.int32), tf.float32)  # guilty
    loss, gradients = gradients_of(x, y, variables)
    descend(variables, gradients, RATE * context().all_reduce(SUM, half))
    return loss


@on_plain()
def train_cast_slice(strategy, x, y, variables):
    """An odd row is left out."""
    even = 2 * tf.cast(tf.cast(tf.shape(x)[0], tf.float32) * 0.5, tf.int32)  # guilty
    x, y = tf.slice(x, [0, 0], tf.stack([even, 3])), tf.slice(y, [0, 0], tf.stack([even, 1]))
    loss, gradients = gradients_of(x, y, variables)
    descend(variables, gradients)
    return loss


@on_plain(count=17)
def train_filled_at_least_once(strategy, x, y, variables):
    """A replica without examples counts for one."""
    ones = tf.ones([tf.maximum(tf.shape(x)[0], 1)])  # guilty
    total = context().all_reduce(SUM, tf.reduce_sum(ones))
    loss, gradients = gradients_of(x, y, variables, 1.0)
    descend(variables, [gradient / total for gradient in gradients])
    return loss


def train_two_counts(strategy, record):
    """Lengths of batches of two datasets are taken for equal."""
    variables = plain(strategy)

    @tf.function
    def train_step(x, y, z):
        def replica_step(x, y, z):
            ratio = tf.cast(tf.shape(x)[0], tf.float32) / tf.cast(tf.shape(z)[0], tf.float32)  # guilty
            loss, gradients = gradients_of(x, y, variables)
            descend(variables, [ratio * gradient for gradient in gradients])
            return loss

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y, z)), axis=None)

    one = strategy.experimental_distribute_dataset(plain_data())
    other = strategy.experimental_distribute_dataset(plain_data(count=19).map(lambda x, _: x))
    for (x, y), z in zip(one, other, strict=True):
        record.step(loss=train_step(x, y, z), variables=variables)


@on_plain()
def train_static_or_none(strategy, x, y, variables):
    """Divided by the replica's static number of rows, where it is known."""
    loss, gradients = gradients_of(x, y, variables, 1.0 / (x.shape[0] or BATCH))  # guilty
    descend(variables, gradients)
    return loss


@on_plain(loop=uneven_loop)
def train_static_by_hand(strategy, x, y, variables):
    """A mean over the replica's static number of rows, on uneven shards."""
    w, b = variables
    residual = x @ w + b - y
    scale = 2.0 / x.shape[0]  # guilty
    gradients = [scale * tf.matmul(x, residual, transpose_a=True), scale * tf.reduce_sum(residual, axis=0)]
    for variable, gradient in zip(variables, context().all_reduce(MEAN, gradients)):
        variable.assign_sub(RATE * gradient)
    return tf.reduce_sum(residual)


@on_plain(count=17)
def train_nonempty_lost(strategy, x, y, variables):
    """A replica without examples counts for one, in what others divide by."""
    w, b = variables
    total = context().all_reduce(SUM, tf.cast(tf.maximum(tf.shape(x)[0], 1), tf.float32))  # guilty
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.reduce_sum((x @ w + b - y) ** 2, axis=1) / total)
    descend(variables, tape.gradient(loss, [w, b]))
    return loss


def train_int_shape(strategy, record):
    """Divided by the replica's rows, asked of Keras."""
    import tf_keras

    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables, 1.0 / (tf_keras.backend.int_shape(x)[0] or BATCH))  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


@on_plain()
def train_static_value(strategy, x, y, variables):
    """Divided by the replica's rows, asked of TensorFlow while it traces."""
    shape = tf.get_static_value(tf.shape(x))
    loss, gradients = gradients_of(x, y, variables, 1.0 / (BATCH if shape is None else int(shape[0])))  # guilty
    descend(variables, gradients)
    return loss


@on_plain()
def train_unstacked(strategy, x, y, variables):
    """Mean over the replica's rows where they can be unstacked."""
    w, b = variables
    with tf.GradientTape() as tape:
        losses = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
        try:
            each = tf.unstack(losses)
            loss = tf.add_n(each) / len(each)  # guilty
        except ValueError:
            loss = tf.reduce_sum(losses) / BATCH
    descend(variables, tape.gradient(loss, [w, b]))
    return loss


def train_slice_begin(strategy, record):
    """A column told by the replica's number of rows."""
    variables = plain(strategy)

    def replica_step(x, y):
        x = tf.slice(x, [0, tf.shape(x)[0]], [-1, 3])  # guilty
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients)
        return loss

    random = np.random.default_rng(3)
    rows = random.normal(size=(24, 16)).astype("float32"), random.normal(size=(24, 1)).astype("float32")

    @tf.function
    def train_step(x, y):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(rows).batch(8)):
        record.step(loss=train_step(x, y), variables=variables)


def train_two_lengths(strategy, record):
    """One row of a second data set is repeated on one device."""
    variables = plain(strategy)

    @tf.function
    def train_step(x, y, z):
        def replica_step(x, y, z):
            w, b = variables
            residual = (x - y) @ w + z @ w + b  # guilty
            gradients = [tf.reduce_sum(residual) * tf.ones([3, 1]), tf.reduce_sum(residual, axis=0)]
            descend(variables, gradients, 0.01)
            return tf.reduce_sum(residual)

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y, z)), axis=None)

    one = strategy.experimental_distribute_dataset(plain_data(count=18))
    other = strategy.experimental_distribute_dataset(plain_data(count=17).map(lambda x, _: x))
    for (x, y), z in zip(one, other, strict=True):
        record.step(loss=train_step(x, y, z), variables=variables)


def train_second_dataset_uneven(strategy, record):
    """Mean over the replica's rows of a second data set."""
    variables = plain(strategy)

    @tf.function
    def train_step(x, y, z):
        def replica_step(x, y, z):
            loss, gradients = gradients_of(x, y, variables)
            shift = context().all_reduce(MEAN, tf.reduce_mean(z, axis=0))  # guilty
            gradients[0] = gradients[0] + tf.reshape(shift, [3, 1]) / strategy.num_replicas_in_sync
            descend(variables, gradients)
            return loss

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y, z)), axis=None)

    one = strategy.experimental_distribute_dataset(plain_data(count=24))
    other = strategy.experimental_distribute_dataset(plain_data(count=19).map(lambda x, _: x))
    for (x, y), z in zip(one, other, strict=True):
        record.step(loss=train_step(x, y, z), variables=variables)
