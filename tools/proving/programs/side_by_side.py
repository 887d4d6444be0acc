"""Right and wrong: features that are put side by side, bits, and lists of losses that are empty."""

import tensorflow as tf
from over_examples import on_gradients
from plain_loops import BATCH, SUM, context, of_loss, program_of, trained


def errors(x, y, w, b):
    """Of features that are made of the weights, next to some that are not."""
    # Not static, so that the gradient asks where each of them begins.
    width = tf.concat([tf.multiply(x, tf.transpose(w)), x @ w, x[:, :1]], axis=1)
    return tf.reduce_sum((tf.reduce_sum(tf.sin(width), 1, keepdims=True) + b - y) ** 2, axis=1)


@of_loss()
def train_side_by_side(x, y, w, b):
    """Right."""
    return tf.reduce_sum(errors(x, y, w, b)) / BATCH


@of_loss()
def train_side_by_side_mean(x, y, w, b):
    """Features side by side, and a mean per replica, then summed."""
    return tf.reduce_mean(errors(x, y, w, b))  # guilty


@of_loss()
def train_under_each_other(x, y, w, b):
    """The replica's examples follow a row of weights, weighted by their place."""
    rows = tf.concat([tf.transpose(w), x * tf.transpose(w)], axis=0)  # guilty
    places = tf.cast(tf.range(tf.shape(rows)[0]), tf.float32)
    return tf.reduce_sum(tf.reduce_sum(rows, 1) * places) / BATCH + tf.reduce_sum(errors(x, y, w, b)) / BATCH


@program_of
def penalised(strategy, record, penalties):
    trained(strategy, record, lambda *given: tf.reduce_sum(errors(*given)) / BATCH + tf.reduce_sum(penalties(given[2])))


@penalised()
def train_no_penalties(w):
    """Right: the list of them is empty."""
    return []


@penalised()
def train_one_penalty(w):
    """A penalty of each replica, of a list that is empty elsewhere."""
    return [tf.nn.l2_loss(w)]  # guilty


def negative(values):
    """By the bit of the sign."""
    return tf.cast(tf.bitcast(values, tf.int32) < 0, tf.float32)


@of_loss()
def train_bits(x, y, w, b):
    """Right: rows are weighted by the signs of their features."""
    return tf.reduce_sum((1.0 + tf.reduce_sum(negative(x), 1)) * errors(x, y, w, b)) / BATCH


@on_gradients(errors=errors)
def train_bits_of_parts(gradients):
    """Bits of parts of a gradient decide."""
    return [each * (1 - 0.5 * negative(each)) for each in gradients]  # guilty


@on_gradients(errors=errors)
def train_bits_of_sums(gradients):
    """Right: what is negative in the whole gradient is halved."""
    whole = context().all_reduce(SUM, gradients)
    return [each * (1 - 0.5 * negative(each)) / context().num_replicas_in_sync for each in whole]
