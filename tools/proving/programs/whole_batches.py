"""Right and wrong: what depends on all examples of a batch, or on gradients that are not yet added up."""

import tensorflow as tf
from over_examples import errors, on_gradients
from plain_loops import BATCH, MEAN, RATE, SUM, context, gradients_of, of_loss, on_plain, trained


@of_loss()
def train_negatives(x, y, w, b):
    """Every example against those of the same replica."""
    alike = tf.matmul(x * w[:, 0], x, transpose_b=True)  # guilty
    return tf.reduce_sum(tf.nn.softplus(alike)) / BATCH**2 + 0.0 * tf.reduce_sum(b)


@of_loss()
def train_triplets(x, y, w, b):
    """The farthest example of the replica."""
    found = x @ w + b
    apart = tf.abs(found - tf.transpose(found))
    return tf.reduce_sum(tf.reduce_max(apart, axis=1)) / BATCH  # guilty


@of_loss()
def train_anchor(x, y, w, b):
    """Held against the first example of the replica."""
    found = x @ w + b
    return tf.reduce_sum((found - found[:1] - y) ** 2) / BATCH  # guilty


@of_loss()
def train_standardised(x, y, w, b):
    """Standardised by the replica's mean and variance."""
    mean, variance = tf.nn.moments(x, axes=[0])  # guilty
    return tf.reduce_sum(errors((x - mean) / tf.sqrt(variance + 0.1), y, w, b)) / BATCH


@of_loss()
def train_standardised_rows(x, y, w, b):
    """Right: of each example by itself."""
    mean, variance = tf.nn.moments(x, axes=[1], keepdims=True)
    return tf.reduce_sum(errors((x - mean) / tf.sqrt(variance + 0.1), y, w, b)) / BATCH


@of_loss()
def train_standardised_by_all(x, y, w, b):
    """Right: by sums over all replicas."""
    count, total, squares = context().all_reduce(
        SUM, [tf.cast(tf.shape(x)[0], tf.float32), tf.reduce_sum(x, 0), tf.reduce_sum(x**2, 0)]
    )
    mean = total / count
    return tf.reduce_sum(errors((x - mean) / tf.sqrt(squares / count - mean**2 + 0.1), y, w, b)) / BATCH


@of_loss()
def train_variances_averaged(x, y, w, b):
    """Variances of replicas are averaged, each around its own mean."""
    mean, variance = context().all_reduce(MEAN, list(tf.nn.moments(x, axes=[0])))  # guilty
    return tf.reduce_sum(errors((x - mean) / tf.sqrt(variance + 0.1), y, w, b)) / BATCH


@of_loss()
def train_axis_mistaken(x, y, w, b):
    """A norm along the examples instead of the features."""
    return tf.reduce_sum(errors(tf.math.l2_normalize(x, axis=0), y, w, b)) / BATCH  # guilty


@of_loss()
def train_axis_right(x, y, w, b):
    """Right: along the features."""
    return tf.reduce_sum(errors(tf.math.l2_normalize(x, axis=1), y, w, b)) / BATCH


@on_gradients()
def train_centralised(gradients):
    """Right: a gradient less its mean, which is linear."""
    return [each - tf.reduce_mean(each) for each in gradients]


@on_gradients()
def train_normed_parts(gradients):
    """Each replica makes its gradient as long as one."""
    return [each / (tf.norm(each) + 1e-3) for each in gradients]  # guilty


@on_gradients()
def train_signs(gradients):
    """Signs of gradients that are not added up yet."""
    return [0.1 * tf.sign(each) for each in gradients]  # guilty


@on_plain()
def train_signs_of_sums(strategy, x, y, variables):
    """Right: after the sum."""
    loss, gradients = gradients_of(x, y, variables)
    for variable, gradient in zip(variables, context().all_reduce(SUM, gradients)):
        variable.assign_sub(RATE * tf.sign(gradient))
    return loss


@on_gradients()
def train_sparsified(gradients):
    """The larger half of each replica's gradient."""
    return [tf.where(tf.abs(each) >= tf.reduce_mean(tf.abs(each)), each, 0.0) for each in gradients]  # guilty


@on_gradients()
def train_rounded(gradients):
    """Gradients are rounded before they are added up."""
    return [tf.round(each * 4.0) / 4.0 for each in gradients]  # guilty


def train_own_gradient(strategy, record):
    """A custom gradient divides by the replica's rows."""

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
    """A custom gradient makes each replica's part as long as one."""

    @tf.custom_gradient
    def normed(values):
        return tf.identity(values), lambda up: up / (tf.norm(up) + 0.1)  # guilty

    def loss_of(x, y, w, b):
        return tf.reduce_sum((x @ normed(w) + b - y) ** 2) / BATCH

    trained(strategy, record, loss_of)


@on_plain()
def train_scaled_loss(strategy, x, y, variables):
    """Right: a scale that is taken away again, after the sum."""
    w, b = variables
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(errors(x, y, w, b)) / BATCH
        scaled = 1024.0 * loss
    for variable, gradient in zip(variables, context().all_reduce(SUM, tape.gradient(scaled, variables))):
        variable.assign_sub(RATE * gradient / 1024.0)
    return loss


@of_loss()
def train_scaled_by_loss(x, y, w, b):
    """Divided by the replica's own loss."""
    loss = tf.reduce_sum(errors(x, y, w, b)) / BATCH
    return loss / tf.stop_gradient(loss + 0.1)  # guilty


@of_loss()
def train_deviation(x, y, w, b):
    """The variance of the replica's predictions as a penalty."""
    found = x @ w + b
    return tf.reduce_sum((found - y) ** 2) / BATCH + tf.math.reduce_variance(found) / 2.0  # guilty


@of_loss()
def train_log_of_sum(x, y, w, b):
    """A logarithm of the replica's sum."""
    return tf.reduce_logsumexp(errors(x, y, w, b)) / 2.0  # guilty


@of_loss()
def train_root(x, y, w, b):
    """A root of the replica's mean."""
    return tf.sqrt(tf.reduce_mean(errors(x, y, w, b))) / 2.0  # guilty
