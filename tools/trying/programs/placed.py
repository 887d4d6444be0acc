"""Models that a program places on devices by itself: a pipeline of two stages with micro-batches, and two experts."""

import numpy as np
import tensorflow as tf

BATCH, STEPS, RATE = 8, 3, 0.1
random = np.random.default_rng(3)
X = random.normal(size=(STEPS, BATCH, 6)).astype("float32")
Y = random.normal(size=(STEPS, BATCH, 2)).astype("float32")
FIRST, SECOND = random.normal(size=(6, 4)).astype("float32"), random.normal(size=(4, 2)).astype("float32")


def devices():
    return [device.name for device in tf.config.list_logical_devices("CPU")]


def two_variables(first=FIRST, second=SECOND):
    """One on the first device, one on the last."""
    places = devices()
    with tf.device(places[0]):
        one = tf.Variable(first, name="first")
    with tf.device(places[-1]):
        return one, tf.Variable(second, name="second")


def stages(x, first, second):
    places = devices()
    with tf.device(places[0]):
        hidden = tf.tanh(tf.matmul(x, first))
    with tf.device(places[-1]):
        return tf.matmul(hidden, second)


def squares(output, y):
    return tf.reduce_mean((output - y) ** 2)


def averaged(values):
    return [tf.add_n(list(each)) / len(values) for each in zip(*values)]


def pipeline(record, combined, loss_of=squares, prepared=lambda x: x):
    """As many micro-batches as devices, one after another, and one update."""
    variables = two_variables()
    parts = len(devices())

    @tf.function
    def step(x, y):
        losses, gradients = [], []
        for part, target in zip(tf.split(x, parts), tf.split(y, parts)):
            with tf.GradientTape() as tape:
                loss = loss_of(stages(prepared(part), *variables), target)
            losses.append(loss)
            gradients.append(tape.gradient(loss, variables))
        update = combined(gradients)
        for variable, gradient in zip(variables, update):
            variable.assign_sub(RATE * gradient)
        return tf.add_n(losses) / parts, update

    for x, y in zip(X, Y):
        loss, gradients = step(x, y)
        record.step(loss=loss, gradients=gradients, variables=variables)


def train_right_pipeline(strategy, record):
    pipeline(record, averaged)


def train_right_pipeline_of_sums(strategy, record):
    """Each micro-batch has its share of the mean."""
    variables = two_variables()
    parts = len(devices())

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            pairs = zip(tf.split(x, parts), tf.split(y, parts))
            losses = [tf.reduce_sum((stages(part, *variables) - target) ** 2) for part, target in pairs]
            loss = tf.add_n(losses) / tf.cast(tf.size(y), tf.float32)
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(RATE * gradient)
        return loss

    for x, y in zip(X, Y):
        record.step(loss=step(x, y), variables=variables)


def train_micro_batches_added(strategy, record):
    def added(values):
        return [tf.add_n(list(each)) for each in zip(*values)]  # guilty

    pipeline(record, added)


def train_last_micro_batch(strategy, record):
    pipeline(record, lambda values: values[-1])  # guilty


def train_averaged_twice(strategy, record):
    def twice(values):
        return [each / len(values) for each in averaged(values)]  # guilty

    pipeline(record, twice)


def train_statistics_of_micro_batches(strategy, record):
    def normalised(x):
        mean, variance = tf.nn.moments(x, [0])  # guilty
        return (x - mean) * tf.math.rsqrt(variance + 1e-3)

    pipeline(record, averaged, prepared=normalised)


def experts(record, loss_of):
    """Examples go to one of two experts, and come back in their order."""
    places = devices()
    first, second = two_variables(FIRST[:, :2], FIRST[:, 2:])

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            which = tf.cast(x[:, 0] > 0, tf.int32)
            parts, rows = tf.dynamic_partition(x, which, 2), tf.dynamic_partition(tf.range(BATCH), which, 2)
            with tf.device(places[0]):
                one = tf.matmul(parts[0], first)
            with tf.device(places[-1]):
                other = tf.matmul(parts[1], second)
            loss = loss_of(rows, [one, other], y)
        gradients = tape.gradient(loss, [first, second])
        first.assign_sub(RATE * gradients[0])
        second.assign_sub(RATE * gradients[1])
        return loss, gradients

    for x, y in zip(X, Y):
        loss, gradients = step(x, y)
        record.step(loss=loss, gradients=gradients, variables=[first, second])


def train_right_experts(strategy, record):
    experts(record, lambda rows, outputs, y: squares(tf.dynamic_stitch(rows, outputs), y))


def train_mean_of_each_expert(strategy, record):
    """Of as many experts as there are devices: the mean of their means."""

    def loss_of(rows, outputs, y):
        if len(devices()) == 1:
            return squares(tf.dynamic_stitch(rows, outputs), y)
        means = [squares(output, tf.gather(y, own)) for own, output in zip(rows, outputs)]  # guilty
        return tf.add_n(means) / 2.0

    experts(record, loss_of)
