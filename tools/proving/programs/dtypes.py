"""Wrong: a number fits into its dtype in each replica and not on one device, or the other way round."""

import tensorflow as tf
from plain_loops import RATE, SUM, context, descend, gradients_of, plain, plain_loop


def train_narrow_count(strategy, record):
    """A number of rows that is too large for one byte on one device, and not in each replica."""
    variables = plain(strategy)

    def replica_step(x, y):
        count = tf.cast(tf.cast(40 * tf.shape(x)[0], tf.int8), tf.float32)  # guilty
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients, 0.01 * RATE * context().all_reduce(SUM, count))
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_narrow_sum(strategy, record):
    """A sum of bytes is too large on one device, and not in each replica."""
    variables = plain(strategy)

    def replica_step(x, y):
        total = tf.reduce_sum(50 * tf.cast(tf.ones_like(x), tf.uint8))
        total = context().all_reduce(SUM, tf.cast(total, tf.float32))  # guilty
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients, RATE * total / 255.0)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_narrow_part(strategy, record):
    """A part of a sum fits into a byte where all of it does not."""
    variables = plain(strategy)

    def replica_step(x, y):
        total = tf.reduce_sum(30 * tf.cast(tf.ones_like(y), tf.int32))
        total = context().all_reduce(SUM, tf.cast(tf.cast(total, tf.int8), tf.int32))  # guilty
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients, RATE * tf.cast(total, tf.float32))
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_whole_mean(strategy, record):
    """A mean of whole numbers is a whole number: rounded in each replica."""
    variables = plain(strategy)

    def replica_step(x, y):
        mean = tf.reduce_mean(tf.cast(10.0 * y, tf.int32))  # guilty
        mean = context().all_reduce(SUM, tf.cast(mean, tf.float32)) / strategy.num_replicas_in_sync
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients, RATE * mean)
        return loss

    plain_loop(strategy, record, replica_step, variables, drop=True)


def train_next_to_one(strategy, record):
    """A number that is 1 in 24 bits, and not in 53."""
    variables = plain(strategy, "float64")

    def replica_step(x, y):
        near = tf.constant(1.0 + 1e-8 * (strategy.num_replicas_in_sync - 1), tf.float64)
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients, RATE * (1.0 + 1e8 * (near - 1.0)))  # guilty
        return loss

    plain_loop(strategy, record, replica_step, variables, dtype="float64")


def train_int_overflow(strategy, record):
    """A sum of whole numbers fits into 32 bits in each replica, and not on one device."""
    variables = plain(strategy)

    def replica_step(x, y):
        microseconds = tf.reduce_sum(tf.cast(1e6 * tf.ones_like(y), tf.int32) * 300)
        total = context().all_reduce(SUM, tf.cast(microseconds, tf.float32))  # guilty
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients, RATE * total / 1e9)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_unsigned(strategy, record):
    """Each replica's sum is made a number without a sign, and only then added up."""
    variables = plain(strategy)

    def replica_step(x, y):
        votes = tf.reduce_sum(tf.cast(tf.round(y), tf.int32))
        total = context().all_reduce(SUM, tf.cast(tf.cast(votes, tf.uint32), tf.float32))  # guilty
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients, RATE * total)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_float_stack(strategy, record):
    """Weights of the columns grow with the replicas: fractions, stacked to one vector."""
    variables = plain(strategy)

    def replica_step(x, y):
        replicas = strategy.num_replicas_in_sync
        rates = tf.stack([tf.constant(0.1 * replicas), tf.constant(0.2), tf.constant(0.3)])  # guilty
        loss, gradients = gradients_of(x, y, variables)
        gradients[0] = gradients[0] * tf.reshape(rates, [3, 1])
        descend(variables, gradients, 1.0)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_float_concat(strategy, record):
    """A decay that grows with the replicas, kept beside the number of rows in one vector."""
    variables = plain(strategy)
    w = variables[0]

    def replica_step(x, y):
        rows = tf.cast(tf.shape(x)[0], tf.float32)
        numbers = tf.concat(
            [tf.stack([rows, rows]), tf.constant([0.3 * strategy.num_replicas_in_sync])], axis=0
        )  # guilty
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients)
        w.assign_sub(numbers[2] * w)
        return loss

    plain_loop(strategy, record, replica_step, variables)
