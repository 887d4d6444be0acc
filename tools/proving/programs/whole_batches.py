"""Right and wrong: what depends on all examples of a batch, or on gradients that are not yet added up."""

import tensorflow as tf
from over_examples import errors
from plain_loops import BATCH, MEAN, RATE, SUM, context, gradients_of, plain, plain_loop, trained


def train_negatives(strategy, record):
    """Every example against the others of the same replica."""

    def loss_of(x, y, w, b):
        alike = tf.matmul(x * w[:, 0], x, transpose_b=True)  # guilty
        return tf.reduce_sum(tf.nn.softplus(alike)) / BATCH**2 + 0.0 * tf.reduce_sum(b)

    trained(strategy, record, loss_of)


def train_triplets(strategy, record):
    """The farthest example of the replica."""

    def loss_of(x, y, w, b):
        found = x @ w + b
        apart = tf.abs(found - tf.transpose(found))
        return tf.reduce_sum(tf.reduce_max(apart, axis=1)) / BATCH  # guilty

    trained(strategy, record, loss_of)


def train_anchor(strategy, record):
    """The first example of the replica is what others are held against."""

    def loss_of(x, y, w, b):
        found = x @ w + b
        return tf.reduce_sum((found - found[:1] - y) ** 2) / BATCH  # guilty

    trained(strategy, record, loss_of)


def train_standardised(strategy, record):
    """By the mean and variance of the replica's examples."""

    def loss_of(x, y, w, b):
        mean, variance = tf.nn.moments(x, axes=[0])  # guilty
        return tf.reduce_sum(errors((x - mean) / tf.sqrt(variance + 0.1), y, w, b)) / BATCH

    trained(strategy, record, loss_of)


def train_standardised_rows(strategy, record):
    """Right: of each example by itself."""

    def loss_of(x, y, w, b):
        mean, variance = tf.nn.moments(x, axes=[1], keepdims=True)
        return tf.reduce_sum(errors((x - mean) / tf.sqrt(variance + 0.1), y, w, b)) / BATCH

    trained(strategy, record, loss_of)


def train_standardised_by_all(strategy, record):
    """Right: by sums over all replicas."""

    def loss_of(x, y, w, b):
        count, total, squares = context().all_reduce(
            SUM, [tf.cast(tf.shape(x)[0], tf.float32), tf.reduce_sum(x, 0), tf.reduce_sum(x**2, 0)]
        )
        mean = total / count
        return tf.reduce_sum(errors((x - mean) / tf.sqrt(squares / count - mean**2 + 0.1), y, w, b)) / BATCH

    trained(strategy, record, loss_of)


def train_variances_averaged(strategy, record):
    """The replicas' variances are averaged, each around a mean of its own."""

    def loss_of(x, y, w, b):
        mean, variance = context().all_reduce(MEAN, list(tf.nn.moments(x, axes=[0])))  # guilty
        return tf.reduce_sum(errors((x - mean) / tf.sqrt(variance + 0.1), y, w, b)) / BATCH

    trained(strategy, record, loss_of)


def train_axis_mistaken(strategy, record):
    """The norm is taken along the examples, not along the features."""

    def loss_of(x, y, w, b):
        return tf.reduce_sum(errors(tf.math.l2_normalize(x, axis=0), y, w, b)) / BATCH  # guilty

    trained(strategy, record, loss_of)


def train_axis_right(strategy, record):
    def loss_of(x, y, w, b):
        return tf.reduce_sum(errors(tf.math.l2_normalize(x, axis=1), y, w, b)) / BATCH

    trained(strategy, record, loss_of)


def train_centralised(strategy, record):
    """Right: a gradient less its mean, which is linear."""
    trained(
        strategy,
        record,
        lambda *given: tf.reduce_sum(errors(*given)) / BATCH,
        change=lambda gradients: [each - tf.reduce_mean(each) for each in gradients],
    )


def train_normed_parts(strategy, record):
    """Each replica makes its gradient as long as one."""
    trained(
        strategy,
        record,
        lambda *given: tf.reduce_sum(errors(*given)) / BATCH,
        change=lambda gradients: [each / (tf.norm(each) + 1e-3) for each in gradients],  # guilty
    )


def train_signs(strategy, record):
    trained(
        strategy,
        record,
        lambda *given: tf.reduce_sum(errors(*given)) / BATCH,
        change=lambda gradients: [0.1 * tf.sign(each) for each in gradients],  # guilty
    )


def train_signs_of_sums(strategy, record):
    """Right: after the sum."""
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        for variable, gradient in zip(variables, context().all_reduce(SUM, gradients)):
            variable.assign_sub(RATE * tf.sign(gradient))
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_sparsified(strategy, record):
    """The larger half of each replica's gradient."""

    def change(gradients):
        return [tf.where(tf.abs(each) >= tf.reduce_mean(tf.abs(each)), each, 0.0) for each in gradients]  # guilty

    trained(strategy, record, lambda *given: tf.reduce_sum(errors(*given)) / BATCH, change=change)


def train_rounded(strategy, record):
    """Gradients in steps of a hundredth, before they are added up."""

    def change(gradients):
        return [tf.round(each * 4.0) / 4.0 for each in gradients]  # guilty

    trained(strategy, record, lambda *given: tf.reduce_sum(errors(*given)) / BATCH, change=change)


def train_own_gradient(strategy, record):
    """A gradient of one's own, which divides by the number of the replica's rows."""

    @tf.custom_gradient
    def mean(values):
        return tf.reduce_sum(
            values
        ) / BATCH, lambda up: up * tf.ones_like(values) / tf.cast(tf.shape(values)[0], tf.float32)  # guilty

    trained(strategy, record, lambda *given: mean(errors(*given)))


def train_own_gradient_right(strategy, record):
    """Right: one that reverses it."""

    @tf.custom_gradient
    def turned(values):
        return tf.identity(values), lambda up: -up

    def loss_of(x, y, w, b):
        return tf.reduce_sum((turned(x @ w) + b - y) ** 2) / BATCH

    trained(strategy, record, loss_of)


def train_own_gradient_clipped(strategy, record):
    """Right: clips what reaches each example."""

    @tf.custom_gradient
    def clipped(values):
        return tf.identity(values), lambda up: tf.clip_by_value(up, -0.1, 0.1)

    def loss_of(x, y, w, b):
        return tf.reduce_sum((clipped(x @ w + b) - y) ** 2) / BATCH

    trained(strategy, record, loss_of)


def train_own_gradient_normed(strategy, record):
    """Makes what reaches the weights as long as one, of each replica's part."""

    @tf.custom_gradient
    def normed(values):
        return tf.identity(values), lambda up: up / (tf.norm(up) + 0.1)  # guilty

    def loss_of(x, y, w, b):
        return tf.reduce_sum((x @ normed(w) + b - y) ** 2) / BATCH

    trained(strategy, record, loss_of)


def train_scaled_loss(strategy, record):
    """Right: a scale that is taken away again, after the sum."""
    variables = plain(strategy)
    w, b = variables

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(errors(x, y, w, b)) / BATCH
            scaled = 1024.0 * loss
        for variable, gradient in zip(variables, context().all_reduce(SUM, tape.gradient(scaled, variables))):
            variable.assign_sub(RATE * gradient / 1024.0)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_scaled_by_loss(strategy, record):
    """Divided by the replica's own loss, as a scale that follows the loss."""

    def loss_of(x, y, w, b):
        loss = tf.reduce_sum(errors(x, y, w, b)) / BATCH
        return loss / tf.stop_gradient(loss + 0.1)  # guilty

    trained(strategy, record, loss_of)


def train_deviation(strategy, record):
    """Right in numbers only of one replica: the deviation of predictions as a penalty."""

    def loss_of(x, y, w, b):
        found = x @ w + b
        return tf.reduce_sum((found - y) ** 2) / BATCH + tf.math.reduce_variance(found) / 2.0  # guilty

    trained(strategy, record, loss_of)


def train_log_of_sum(strategy, record):
    def loss_of(x, y, w, b):
        return tf.reduce_logsumexp(errors(x, y, w, b)) / 2.0  # guilty

    trained(strategy, record, loss_of)


def train_root(strategy, record):
    """The root of a mean of squares is not a mean of roots."""

    def loss_of(x, y, w, b):
        return tf.sqrt(tf.reduce_mean(errors(x, y, w, b))) / 2.0  # guilty

    trained(strategy, record, loss_of)
