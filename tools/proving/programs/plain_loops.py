"""Loops over two variables and a linear model, which the programs beside it train."""

import numpy as np
import tensorflow as tf

BATCH, RATE = 8, 0.1
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN


def context():
    return tf.distribute.get_replica_context()


def plain(strategy, dtype="float32"):
    with strategy.scope():
        start = tf.constant([[0.5], [-0.3], [0.2]], dtype)
        w = tf.Variable(start, name="w", aggregation=tf.VariableAggregation.MEAN)
        b = tf.Variable(tf.constant([0.1], dtype), name="b", aggregation=tf.VariableAggregation.MEAN)
    return w, b


def plain_data(*, drop=False, count=3 * BATCH, dtype="float32"):
    random = np.random.default_rng(3)
    x = random.normal(size=(count, 3)).astype(dtype)
    y = (x.sum(axis=1, keepdims=True) + 0.5 * random.normal(size=(count, 1))).astype(dtype)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH, drop_remainder=drop)


def gradients_of(x, y, variables, scale=1.0 / BATCH):
    w, b = variables
    with tf.GradientTape() as tape:
        losses = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
        loss = scale * tf.reduce_sum(losses)
    return loss, tape.gradient(loss, [w, b])


def descend(variables, gradients, rate=RATE):
    for variable, gradient in zip(variables, context().all_reduce(SUM, gradients)):
        variable.assign_sub(rate * gradient)


def loop_over(data, strategy, record, replica_step, variables):
    @tf.function
    def train_step(x, y):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(data):
        record.step(loss=train_step(x, y), variables=variables)


def plain_loop(strategy, record, replica_step, variables, **options):
    loop_over(plain_data(**options), strategy, record, replica_step, variables)


def uneven_loop(strategy, record, replica_step, variables, rows=21):
    loop_over(plain_data().unbatch().take(rows).batch(BATCH), strategy, record, replica_step, variables)


def program_of(run):
    """What makes a program of a function, with which `run(strategy, record, function, **options)` trains."""

    def with_options(**options):
        def made(function):
            def train(strategy, record):
                run(strategy, record, function, **options)

            train.__name__ = train.__qualname__ = function.__name__
            return train

        return made

    return with_options


@program_of
def on_plain(strategy, record, replica_step, *, loop=plain_loop, **options):
    """Each replica takes `replica_step(strategy, x, y, variables)`, which gives its loss."""
    variables = plain(strategy, options.get("dtype", "float32"))

    def step(x, y):
        return replica_step(strategy, x, y, variables)

    loop(strategy, record, step, variables, **options)


def stepped(strategy, x, y, variables, rate):
    """A step to which nothing is wrong."""

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients, rate)
        return loss

    return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)


def right_step(strategy, variables, rate=RATE):
    @tf.function
    def train_step(x, y):
        return stepped(strategy, x, y, variables, rate)

    return train_step


def rated_step(strategy, variables):
    """One that is given its rate."""

    @tf.function
    def train_step(x, y, rate):
        return stepped(strategy, x, y, variables, rate)

    return train_step


def rate_of(strategy):
    with strategy.scope():
        return tf.Variable(RATE, trainable=False, name="rate")


def rate_loop(strategy, record, variables, rate, between, data):
    train_step = right_step(strategy, variables, rate)
    for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(data)):
        loss = train_step(x, y)
        record.step(loss=loss, variables=variables)
        between(number, loss)


def trained(strategy, record, loss_of, *, uneven=False, change=None):
    """Descend along the gradients of `loss_of(x, y, w, b)`, which replicas add up; `change` is made to them before."""
    variables = plain(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(x, y, *variables)
        gradients = tape.gradient(loss, variables)
        descend(variables, gradients if change is None else change(gradients))
        return loss

    (uneven_loop if uneven else plain_loop)(strategy, record, replica_step, variables)


of_loss = program_of(trained)
