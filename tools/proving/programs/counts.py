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
    plain,
    plain_data,
    plain_loop,
    uneven_loop,
)


def train_floor(strategy, record):
    """Half of the replica's rows, rounded."""
    variables = plain(strategy)

    def replica_step(x, y):
        half = tf.cast(tf.shape(x)[0] // 3, tf.float32)
        loss, gradients = gradients_of(x, y, variables, half / BATCH)  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_halves(strategy, record):
    """Each replica leaves out its first example; on one device it is one of all."""
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x[1:], y[1:], variables)  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_batch_of_replica(strategy, record):
    """The number of rows is known when the graph is made, as a plain number."""
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables, 1.0 / int(x.shape[0]))  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables, drop=True)


def train_weight_by_rows(strategy, record):
    variables = plain(strategy)

    def replica_step(x, y):
        count = tf.cast(tf.shape(x)[0], tf.float32)
        loss, gradients = gradients_of(x, y, variables, count / BATCH**2)  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_seeded_noise(strategy, record):
    """Equal seeds, and so equal noise for the rows of every replica."""
    variables = plain(strategy)

    def replica_step(x, y):
        noise = tf.random.stateless_normal(tf.shape(x), seed=[1, 2])  # guilty
        loss, gradients = gradients_of(x + 0.1 * noise, y, variables)
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_cast_count(strategy, record):
    """Half of each replica's rows, rounded by a cast."""
    variables = plain(strategy)

    def replica_step(x, y):
        half = tf.cast(tf.cast(tf.cast(tf.shape(x)[0], tf.float32) * 0.5, tf.int32), tf.float32)  # guilty
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients, RATE * context().all_reduce(SUM, half))
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_cast_slice(strategy, record):
    """Leaves out the replica's last row if it has an odd number of them."""
    variables = plain(strategy)

    def replica_step(x, y):
        even = 2 * tf.cast(tf.cast(tf.shape(x)[0], tf.float32) * 0.5, tf.int32)  # guilty
        x, y = tf.slice(x, [0, 0], tf.stack([even, 3])), tf.slice(y, [0, 0], tf.stack([even, 1]))
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_filled_at_least_once(strategy, record):
    """A replica without examples counts for one."""
    variables = plain(strategy)

    def replica_step(x, y):
        ones = tf.ones([tf.maximum(tf.shape(x)[0], 1)])  # guilty
        total = context().all_reduce(SUM, tf.reduce_sum(ones))
        loss, gradients = gradients_of(x, y, variables, 1.0)
        descend(variables, [gradient / total for gradient in gradients])
        return loss

    plain_loop(strategy, record, replica_step, variables, count=17)


def train_two_counts(strategy, record):
    """Two datasets, of which only the first batches are equally long: each replica divides what it has of them."""
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


def train_static_or_none(strategy, record):
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables, 1.0 / (x.shape[0] or BATCH))  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_static_by_hand(strategy, record):
    variables = plain(strategy)
    w, b = variables

    def replica_step(x, y):
        residual = x @ w + b - y
        scale = 2.0 / x.shape[0]  # guilty
        gradients = [scale * tf.matmul(x, residual, transpose_a=True), scale * tf.reduce_sum(residual, axis=0)]
        for variable, gradient in zip(variables, context().all_reduce(MEAN, gradients)):
            variable.assign_sub(RATE * gradient)
        return tf.reduce_sum(residual)

    uneven_loop(strategy, record, replica_step, variables)


def train_nonempty_lost(strategy, record):
    """A replica without examples counts for one in the number of all, by which the others' rows are divided."""
    variables = plain(strategy)
    w, b = variables

    def replica_step(x, y):
        total = context().all_reduce(SUM, tf.cast(tf.maximum(tf.shape(x)[0], 1), tf.float32))  # guilty
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.reduce_sum((x @ w + b - y) ** 2, axis=1) / total)
        descend(variables, tape.gradient(loss, [w, b]))
        return loss

    plain_loop(strategy, record, replica_step, variables, count=17)


def train_int_shape(strategy, record):
    """Divided by the replica's rows where Keras' backend tells their number."""
    import tf_keras

    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables, 1.0 / (tf_keras.backend.int_shape(x)[0] or BATCH))  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_static_value(strategy, record):
    """Divided by the replica's rows where TensorFlow knows their number while it makes the graph."""
    variables = plain(strategy)

    def replica_step(x, y):
        shape = tf.get_static_value(tf.shape(x))
        loss, gradients = gradients_of(x, y, variables, 1.0 / (BATCH if shape is None else int(shape[0])))  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_unstacked(strategy, record):
    """Takes the mean over the replica's rows one by one where there are so many, and else sums them up."""
    variables = plain(strategy)
    w, b = variables

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            try:
                each = tf.unstack(losses)
                loss = tf.add_n(each) / len(each)  # guilty
            except ValueError:
                loss = tf.reduce_sum(losses) / BATCH
        descend(variables, tape.gradient(loss, [w, b]))
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_slice_begin(strategy, record):
    """The column that is cut out is told by how many rows the replica has."""
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
    """Two datasets end with two rows and one: one device repeats that one, and a replica without it drops its own."""
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
    """A mean over each replica's rows of a second dataset, whose last batch is uneven while the first one's is even."""
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
