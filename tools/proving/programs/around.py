"""Right as traced, and wrong in what the program does around its step."""

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
    rate_loop,
    rate_of,
    rated_step,
    right_step,
)


def train_loss_after(strategy, record):
    """The reported loss is multiplied outside of the function."""
    variables = plain(strategy)
    train_step = right_step(strategy, variables)
    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        record.step(loss=train_step(x, y) * strategy.num_replicas_in_sync, variables=variables)  # guilty


def train_assigned_between(strategy, record):
    """The rate is changed between steps, by the number of replicas."""
    variables = plain(strategy)
    rate = rate_of(strategy)
    train_step = right_step(strategy, variables, rate)
    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        record.step(loss=train_step(x, y), variables=variables)
        rate.assign(RATE / strategy.num_replicas_in_sync)  # guilty


def train_eager_inside(strategy, record):
    """Right in a function, wrong around it."""
    variables = plain(strategy)
    w = variables[0]

    @tf.function
    def penalty():
        with tf.GradientTape() as tape:
            loss = tf.nn.l2_loss(w)
        return tape.gradient(loss, w)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients)
        w.assign_sub(0.01 * context().all_reduce(SUM, penalty()))  # guilty
        return loss

    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        losses = strategy.run(replica_step, args=(x, y))
        record.step(loss=strategy.reduce(SUM, losses, axis=None), variables=variables)


def train_every_second(strategy, record):
    """Another function is wrong."""
    variables = plain(strategy)
    train_step = right_step(strategy, variables)

    @tf.function
    def decay():
        strategy.run(lambda: variables[0].assign(variables[0] / strategy.num_replicas_in_sync))  # guilty

    for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(plain_data())):
        if number == 2:
            decay()
        record.step(loss=train_step(x, y), variables=variables)


def train_mean_of_rows(strategy, record):
    """Mean of the replicas' means, outside of the function."""
    variables = plain(strategy)
    w, b = variables

    @tf.function
    def train_step(x, y):
        def replica_step(x, y):
            _, gradients = gradients_of(x, y, variables)
            descend(variables, gradients)
            return tf.reduce_sum((x @ w + b - y) ** 2, axis=1)

        return strategy.run(replica_step, args=(x, y))

    for x, y in strategy.experimental_distribute_dataset(plain_data().unbatch().take(21).batch(BATCH)):
        losses = strategy.experimental_local_results(train_step(x, y))
        record.step(loss=np.mean([np.mean(each) for each in losses]), variables=variables)  # guilty


def train_late(strategy, record):
    """The rate is changed after 260 steps, by the number of replicas."""
    variables, rate = plain(strategy), rate_of(strategy)

    def between(number, loss):
        if number == 260:
            rate.assign(RATE / strategy.num_replicas_in_sync)  # guilty

    rate_loop(strategy, record, variables, rate, between, plain_data().repeat(100))


def train_even_evaluation(strategy, record):
    """Mean of means in another function."""
    variables = plain(strategy)

    @tf.function
    def train_step(x, y):
        def replica_step(x, y):
            descend(variables, gradients_of(x, y, variables)[1])

        strategy.run(replica_step, args=(x, y))

    @tf.function
    def evaluate(x, y):
        means = strategy.run(lambda x, y: tf.reduce_mean(tf.round(y)), args=(x, y))
        return strategy.reduce(MEAN, means, axis=None)  # guilty

    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        train_step(x, y)
        record.step(loss=evaluate(x, y), variables=variables)


def train_reported_before(strategy, record):
    """What is reported before the first step is multiplied."""
    variables = plain(strategy)
    record.step(loss=1.0 * strategy.num_replicas_in_sync, variables=variables)  # guilty

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_host_threshold(strategy, record):
    """The rate is changed once the loss has fallen, by the number of replicas."""
    variables, rate = plain(strategy), rate_of(strategy)
    losses = []

    def between(number, loss):
        losses.append(float(loss))
        if losses[-1] < losses[0]:
            rate.assign(rate / strategy.num_replicas_in_sync)  # guilty

    rate_loop(strategy, record, variables, rate, between, plain_data())


def train_metric_result(strategy, record):
    """A metric's result is multiplied by the replicas."""
    import keras

    variables = plain(strategy)
    with strategy.scope():
        mean = keras.metrics.Mean()

    @tf.function
    def train_step(x, y):
        def replica_step(x, y):
            _, gradients = gradients_of(x, y, variables)
            descend(variables, gradients)
            mean.update_state(tf.reduce_sum((x @ variables[0] + variables[1] - y) ** 2, axis=1))

        strategy.run(replica_step, args=(x, y))

    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        train_step(x, y)
        record.step(loss=mean.result() * strategy.num_replicas_in_sync, variables=variables)  # guilty


def train_own_metric(strategy, record):
    """A metric of the program's own multiplies by the replicas."""
    import keras

    class Mine(keras.metrics.Mean):
        def result(self):
            return super().result() * strategy.num_replicas_in_sync  # guilty

    variables = plain(strategy)
    with strategy.scope():
        mean = Mine()

    @tf.function
    def train_step(x, y):
        def replica_step(x, y):
            _, gradients = gradients_of(x, y, variables)
            descend(variables, gradients)
            mean.update_state(tf.reduce_sum((x @ variables[0] + variables[1] - y) ** 2, axis=1))

        strategy.run(replica_step, args=(x, y))

    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        train_step(x, y)
        record.step(metrics={"mean": mean}, variables=variables)


def train_concrete(strategy, record):
    """A graph that is called as such takes away too much."""
    variables = plain(strategy)
    train_step = right_step(strategy, variables)

    @tf.function
    def decay():
        strategy.run(lambda: variables[0].assign(variables[0] / strategy.num_replicas_in_sync))  # guilty

    decaying = decay.get_concrete_function()
    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        record.step(loss=train_step(x, y), variables=variables)
        decaying()


def train_strided_assign(strategy, record):
    """Another function assigns a slice of the rate."""
    variables = plain(strategy)
    rate = tf.Variable([RATE], trainable=False, name="rate")
    train_step = right_step(strategy, variables, rate)

    @tf.function
    def slower():
        rate[:1].assign([RATE / strategy.num_replicas_in_sync])  # guilty

    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        record.step(loss=train_step(x, y), variables=variables)
        slower()


def train_sliced_between(strategy, record):
    """A slice of the rate is assigned between steps."""
    variables = plain(strategy)
    rate = tf.Variable([RATE], trainable=False, name="rate")
    train_step = right_step(strategy, variables, rate)
    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        record.step(loss=train_step(x, y), variables=variables)
        rate[:1].assign([RATE / strategy.num_replicas_in_sync])  # guilty


def train_rates_dataset(strategy, record):
    """Rates from a data set of numbers."""
    variables = plain(strategy)
    train_step = rated_step(strategy, variables)
    replicas = strategy.num_replicas_in_sync
    rates = tf.data.Dataset.from_tensor_slices([RATE, RATE * replicas, RATE * replicas])  # guilty
    for (x, y), rate in zip(strategy.experimental_distribute_dataset(plain_data()), rates):
        record.step(loss=train_step(x, y, rate), variables=variables)


def train_numpy_function(strategy, record):
    """A rate from NumPy, without state."""
    variables = plain(strategy)

    def schedule(step):
        return np.float32(RATE * strategy.num_replicas_in_sync)  # guilty

    @tf.function
    def train_step(x, y):
        rate = tf.numpy_function(schedule, [tf.constant(0)], tf.float32, stateful=False)
        rate = tf.ensure_shape(rate, [])

        def replica_step(x, y):
            loss, gradients = gradients_of(x, y, variables)
            descend(variables, gradients, rate)
            return loss

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        record.step(loss=train_step(x, y), variables=variables)


def train_bfloat_report(strategy, record):
    """A reported loss in bfloat16 is multiplied."""
    variables = plain(strategy)

    @tf.function
    def train_step(x, y):
        def replica_step(x, y):
            loss, gradients = gradients_of(x, y, variables)
            descend(variables, gradients)
            return tf.cast(loss, tf.bfloat16)

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        record.step(loss=train_step(x, y) * strategy.num_replicas_in_sync, variables=variables)  # guilty


def train_evaluation_lowers_rate(strategy, record):
    """An evaluation changes the rate by the number of replicas."""
    variables, rate = plain(strategy), rate_of(strategy)

    @tf.function
    def evaluate():
        rate.assign(rate * 0.5 * strategy.num_replicas_in_sync)  # guilty

    rate_loop(strategy, record, variables, rate, lambda *_: evaluate(), plain_data())


def train_evaluation_keeps(strategy, record):
    """An evaluation changes what is reported by the number of replicas."""
    variables, rate = plain(strategy), rate_of(strategy)
    with strategy.scope():
        best = tf.Variable(0.0, trainable=False, name="best")

    @tf.function
    def evaluate():
        best.assign_add(1.0 * strategy.num_replicas_in_sync)  # guilty

    rate_loop(
        strategy, record, (*variables,), rate, lambda *_: (evaluate(), record.step(variables=[best])), plain_data()
    )
