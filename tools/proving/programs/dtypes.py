"""Wrong: a number fits into its dtype in each replica and not on one device, or the other way round."""

import tensorflow as tf
from plain_loops import RATE, SUM, context, descend, gradients_of, on_plain


@on_plain()
def train_narrow_count(strategy, x, y, variables):
    """A number of rows in one byte."""
    count = tf.cast(tf.cast(40 * tf.shape(x)[0], tf.int8), tf.float32)  # guilty
    loss, gradients = gradients_of(x, y, variables)
    descend(variables, gradients, 0.01 * RATE * context().all_reduce(SUM, count))
    return loss


@on_plain()
def train_narrow_sum(strategy, x, y, variables):
    """A sum of bytes is cast before it is reduced."""
    total = tf.reduce_sum(50 * tf.cast(tf.ones_like(x), tf.uint8))
    total = context().all_reduce(SUM, tf.cast(total, tf.float32))  # guilty
    loss, gradients = gradients_of(x, y, variables)
    descend(variables, gradients, RATE * total / 255.0)
    return loss


@on_plain()
def train_narrow_part(strategy, x, y, variables):
    """A part of a sum in one byte."""
    total = tf.reduce_sum(30 * tf.cast(tf.ones_like(y), tf.int32))
    total = context().all_reduce(SUM, tf.cast(tf.cast(total, tf.int8), tf.int32))  # guilty
    loss, gradients = gradients_of(x, y, variables)
    descend(variables, gradients, RATE * tf.cast(total, tf.float32))
    return loss


@on_plain(drop=True)
def train_whole_mean(strategy, x, y, variables):
    """A mean of whole numbers, rounded in each replica."""
    mean = tf.reduce_mean(tf.cast(10.0 * y, tf.int32))  # guilty
    mean = context().all_reduce(SUM, tf.cast(mean, tf.float32)) / strategy.num_replicas_in_sync
    loss, gradients = gradients_of(x, y, variables)
    descend(variables, gradients, RATE * mean)
    return loss


@on_plain(dtype="float64")
def train_next_to_one(strategy, x, y, variables):
    """A number next to 1 in double precision."""
    near = tf.constant(1.0 + 1e-8 * (strategy.num_replicas_in_sync - 1), tf.float64)
    loss, gradients = gradients_of(x, y, variables)
    descend(variables, gradients, RATE * (1.0 + 1e8 * (near - 1.0)))  # guilty
    return loss


@on_plain()
def train_int_overflow(strategy, x, y, variables):
    """A sum of whole numbers that fits in each replica only."""
    microseconds = tf.reduce_sum(tf.cast(1e6 * tf.ones_like(y), tf.int32) * 300)
    total = context().all_reduce(SUM, tf.cast(microseconds, tf.float32))  # guilty
    loss, gradients = gradients_of(x, y, variables)
    descend(variables, gradients, RATE * total / 1e9)
    return loss


@on_plain()
def train_unsigned(strategy, x, y, variables):
    """Each replica's sum loses its sign."""
    votes = tf.reduce_sum(tf.cast(tf.round(y), tf.int32))
    total = context().all_reduce(SUM, tf.cast(tf.cast(votes, tf.uint32), tf.float32))  # guilty
    loss, gradients = gradients_of(x, y, variables)
    descend(variables, gradients, RATE * total)
    return loss


@on_plain()
def train_float_stack(strategy, x, y, variables):
    """Fractions that grow with the replicas, in one vector."""
    replicas = strategy.num_replicas_in_sync
    rates = tf.stack([tf.constant(0.1 * replicas), tf.constant(0.2), tf.constant(0.3)])  # guilty
    loss, gradients = gradients_of(x, y, variables)
    gradients[0] = gradients[0] * tf.reshape(rates, [3, 1])
    descend(variables, gradients, 1.0)
    return loss


@on_plain()
def train_float_concat(strategy, x, y, variables):
    """A fraction that grows with the replicas, beside numbers of rows."""
    w = variables[0]
    rows = tf.cast(tf.shape(x)[0], tf.float32)
    numbers = tf.concat([tf.stack([rows, rows]), tf.constant([0.3 * strategy.num_replicas_in_sync])], axis=0)  # guilty
    loss, gradients = gradients_of(x, y, variables)
    descend(variables, gradients)
    w.assign_sub(numbers[2] * w)
    return loss
