"""Right and wrong: features that are put side by side, bits, and lists of losses that are empty."""

import tensorflow as tf
from plain_loops import BATCH, SUM, context, descend, plain, plain_loop


def stepped(strategy, record, loss_of, prepare=lambda gradients: gradients):
    variables = plain(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(*variables, x, y)
        descend(variables, prepare(tape.gradient(loss, variables)))
        return loss

    plain_loop(strategy, record, replica_step, variables)


def errors(w, b, x, y):
    """Of features that are made of the weights, next to some that are not."""
    # Not static, so that the gradient asks where each of them begins.
    width = tf.concat([tf.multiply(x, tf.transpose(w)), x @ w, x[:, :1]], axis=1)
    return tf.reduce_sum((tf.reduce_sum(tf.sin(width), 1, keepdims=True) + b - y) ** 2, axis=1)


def train_side_by_side(strategy, record):
    """Right."""
    stepped(strategy, record, lambda w, b, x, y: tf.reduce_sum(errors(w, b, x, y)) / BATCH)


def train_side_by_side_mean(strategy, record):
    """A mean per replica, which is added up."""
    stepped(strategy, record, lambda w, b, x, y: tf.reduce_mean(errors(w, b, x, y)))  # guilty


def train_under_each_other(strategy, record):
    """The replica's own examples follow a row of weights, and are weighted by their place."""

    def loss(w, b, x, y):
        rows = tf.concat([tf.transpose(w), x * tf.transpose(w)], axis=0)  # guilty
        places = tf.cast(tf.range(tf.shape(rows)[0]), tf.float32)
        return tf.reduce_sum(tf.reduce_sum(rows, 1) * places) / BATCH + tf.reduce_sum(errors(w, b, x, y)) / BATCH

    stepped(strategy, record, loss)


def penalised(strategy, penalties):
    def loss(w, b, x, y):
        return tf.reduce_sum(errors(w, b, x, y)) / BATCH + tf.reduce_sum(penalties(w))

    return loss


def train_no_penalties(strategy, record):
    """Right: the list of them is empty."""
    stepped(strategy, record, penalised(strategy, lambda w: []))


def train_one_penalty(strategy, record):
    """There is one, which every replica adds."""
    stepped(strategy, record, penalised(strategy, lambda w: [tf.nn.l2_loss(w)]))  # guilty


def negative(values):
    """By the bit of the sign."""
    return tf.cast(tf.bitcast(values, tf.int32) < 0, tf.float32)


def train_bits(strategy, record):
    """Right: rows are weighted by the signs of their features."""
    weighted = lambda x: 1.0 + tf.reduce_sum(negative(x), 1)  # noqa: E731
    stepped(strategy, record, lambda w, b, x, y: tf.reduce_sum(weighted(x) * errors(w, b, x, y)) / BATCH)


def train_bits_of_parts(strategy, record):
    """Each replica halves what is negative in its own part of the gradient."""
    stepped(
        strategy,
        record,
        lambda w, b, x, y: tf.reduce_sum(errors(w, b, x, y)) / BATCH,
        lambda gradients: [each * (1 - 0.5 * negative(each)) for each in gradients],  # guilty
    )


def train_bits_of_sums(strategy, record):
    """Right: what is negative in the whole gradient is halved."""

    def prepare(gradients):
        whole = context().all_reduce(SUM, gradients)
        replicas = strategy.num_replicas_in_sync
        return [each * (1 - 0.5 * negative(each)) / replicas for each in whole]

    stepped(strategy, record, lambda w, b, x, y: tf.reduce_sum(errors(w, b, x, y)) / BATCH, prepare)
