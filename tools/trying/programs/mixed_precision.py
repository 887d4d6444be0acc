"""Loss scaling with skipped updates, as for half precision: the gradients of a scaled loss may overflow."""

import numpy as np
import tensorflow as tf

BATCH, STEPS, RATE = 8, 3, 0.05
# A power of two, so that scaling rounds nothing, and so large that the gradient of an outlier overflows.
SCALE = 2.0**122
SUM = tf.distribute.ReduceOp.SUM


def context():
    return tf.distribute.get_replica_context()


def dataset():
    """The second batch has an outlier, in its first half."""
    random = np.random.default_rng(0)
    x = random.normal(size=(BATCH * STEPS, 3)).astype("float32")
    y = x.sum(axis=1, keepdims=True).astype("float32")
    y[BATCH + 1] = 1e7
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)


def variable(strategy, value, name):
    with strategy.scope():
        return tf.Variable(value, name=name, aggregation=tf.VariableAggregation.MEAN)


def weights(strategy):
    return variable(strategy, [[0.5], [-0.3], [0.2]], "w")


def scaled_gradient(x, y, w, scale):
    with tf.GradientTape() as tape:
        errors = tf.reduce_sum(tf.abs(x @ w - y) ** 1.5, axis=1)
        loss = tf.nn.compute_average_loss(errors, global_batch_size=BATCH)
        scaled = loss * scale
    return loss, tape.gradient(scaled, w)


def loop(strategy, record, replica_step, variables):
    @tf.function
    def train_step(x, y):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(dataset()):
        record.step(loss=train_step(x, y), variables=variables)


# ---- wrong ----


def train_skipped_locally(strategy, record):
    """A replica whose gradient overflows contributes nothing, and the others go on."""
    w = weights(strategy)

    def replica_step(x, y):
        loss, gradient = scaled_gradient(x, y, w, SCALE)
        finite = tf.reduce_all(tf.math.is_finite(gradient))  # guilty
        gradient = tf.where(finite, gradient / SCALE, tf.zeros_like(gradient))  # guilty
        w.assign_sub(RATE * context().all_reduce(SUM, gradient))
        return loss

    loop(strategy, record, replica_step, [w])


def train_scale_lowered_locally(strategy, record):
    """The update is skipped by all, but the scale is lowered by the average of what replicas want."""
    w = weights(strategy)
    scale = variable(strategy, SCALE, "scale")

    def replica_step(x, y):
        loss, gradient = scaled_gradient(x, y, w, scale)
        finite = tf.reduce_all(tf.math.is_finite(gradient))  # guilty
        reduced = context().all_reduce(SUM, gradient) / scale
        reduced = tf.where(tf.math.is_finite(reduced), reduced, tf.zeros_like(reduced))
        w.assign_sub(RATE * reduced)
        scale.assign(tf.where(finite, scale, scale / 4.0))  # guilty
        return loss

    loop(strategy, record, replica_step, [w, scale])


def train_elements_zeroed(strategy, record):
    """Elements that are not finite are taken for zero before the sum, instead of after it."""
    w = weights(strategy)

    def replica_step(x, y):
        loss, gradient = scaled_gradient(x, y, w, SCALE)
        gradient = tf.where(tf.math.is_finite(gradient), gradient / SCALE, tf.zeros_like(gradient))  # guilty
        w.assign_sub(RATE * context().all_reduce(SUM, gradient))
        return loss

    loop(strategy, record, replica_step, [w])


def train_unscaled_by_replicas(strategy, record):
    """The scale is divided out with the number of replicas, of which the loss knows nothing."""
    w = weights(strategy)

    def replica_step(x, y):
        loss, gradient = scaled_gradient(x, y, w, 1024.0)
        gradient = gradient / (1024.0 * strategy.num_replicas_in_sync)  # guilty
        gradient = context().all_reduce(SUM, gradient)
        w.assign_sub(RATE * tf.clip_by_value(gradient, -1.0, 1.0))
        return loss

    loop(strategy, record, replica_step, [w])


def of_copy(strategy, divided):
    """A step by the gradient of a copy of weights in 16 bits, of losses that are `divided`."""
    w = variable(strategy, [[0.1] * 40] * 3, "w")

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            copy = tf.cast(w, tf.bfloat16)
            output = tf.cast(tf.cast(x, tf.bfloat16) @ copy, tf.float32)
            losses = tf.reduce_sum((output - 0.1 * tf.tanh(y)) ** 2, axis=1)
            loss = divided(losses)  # guilty: train_copy_with_mean
        w.assign_sub(RATE * context().all_reduce(SUM, tf.cast(tape.gradient(loss, copy), tf.float32)))

    train_step = tf.function(lambda x, y: strategy.run(replica_step, args=(x, y)))
    for x, y in strategy.experimental_distribute_dataset(dataset()):
        train_step(x, y)


def train_copy_with_mean(strategy, record):
    """Nothing is reported, and no tape is asked for a gradient of a variable."""
    of_copy(strategy, tf.reduce_mean)


# ---- right ----


def train_right_copy(strategy, record):
    """As above, with a loss that is divided by the global batch."""
    of_copy(strategy, lambda losses: tf.nn.compute_average_loss(losses, global_batch_size=BATCH))


def train_right_skipped_by_all(strategy, record):
    """The sum decides, which is not finite if any part is not."""
    w = weights(strategy)

    def replica_step(x, y):
        loss, gradient = scaled_gradient(x, y, w, SCALE)
        gradient = context().all_reduce(SUM, gradient)
        finite = tf.reduce_all(tf.math.is_finite(gradient))
        w.assign_sub(RATE * tf.where(finite, gradient / SCALE, tf.zeros_like(gradient)))
        return loss

    loop(strategy, record, replica_step, [w])


def train_right_scale_lowered(strategy, record):
    """Replicas are counted that overflow, and all lower the scale if there are any."""
    w = weights(strategy)
    scale = variable(strategy, SCALE, "scale")

    def replica_step(x, y):
        loss, gradient = scaled_gradient(x, y, w, scale)
        bad = 1.0 - tf.cast(tf.reduce_all(tf.math.is_finite(gradient)), tf.float32)
        finite = context().all_reduce(SUM, bad) < 0.5
        gradient = context().all_reduce(SUM, gradient) / scale
        w.assign_sub(RATE * tf.where(finite, gradient, tf.zeros_like(gradient)))
        scale.assign(tf.where(finite, scale, scale / 4.0))
        return loss

    loop(strategy, record, replica_step, [w, scale])
