"""Wrong: another graph, or another argument, than that of the first call."""

import enum

import numpy as np
import tensorflow as tf
from plain_loops import BATCH, MEAN, RATE, SUM, descend, gradients_of, plain, plain_data, rated_step, uneven_loop


def train_rate_grows(strategy, record):
    """A rate that grows with the replicas is an argument."""
    variables = plain(strategy)
    train_step = rated_step(strategy, variables)
    for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(plain_data())):
        rate = tf.constant(RATE) + 0.1 * number * (strategy.num_replicas_in_sync - 1)  # guilty
        record.step(loss=train_step(x, y, rate), variables=variables)


def train_another_value(strategy, record):
    """Another graph after the first call."""
    variables = plain(strategy)

    @tf.function
    def train_step(x, y, warm):
        def replica_step(x, y):
            loss, gradients = gradients_of(x, y, variables, (1.0 if warm else 2.0) / BATCH if warm else 1.0)
            descend(variables, gradients)
            return loss

        return strategy.reduce(SUM if warm else MEAN, strategy.run(replica_step, args=(x, y)), axis=None)  # guilty

    for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(plain_data())):
        record.step(loss=train_step(x, y, number == 0), variables=variables)


def train_another_trace(strategy, record):
    """Another graph for the last batch."""
    variables = plain(strategy)
    traces = []

    def replica_step(x, y):
        traces.append(1)
        first = len(traces) <= strategy.num_replicas_in_sync
        loss, gradients = gradients_of(x, y, variables)
        scale = 1.0 if first else strategy.num_replicas_in_sync  # guilty
        descend(variables, [scale * gradient for gradient in gradients])
        return loss

    uneven_loop(strategy, record, replica_step, variables)


def train_another_member(strategy, record):
    """Another graph after the first call, by a member of an enumeration."""

    class Mode(enum.Enum):
        WARM = 1
        LATE = 2

    variables = plain(strategy)

    @tf.function
    def train_step(x, y, mode):
        def replica_step(x, y):
            loss, gradients = gradients_of(x, y, variables)
            descend(variables, gradients, RATE if mode is Mode.WARM else RATE / strategy.num_replicas_in_sync)  # guilty
            return loss

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(plain_data())):
        record.step(loss=train_step(x, y, Mode.LATE if number else Mode.WARM), variables=variables)


def train_numpy_rate(strategy, record):
    """A rate that is a NumPy number grows with the replicas."""
    variables = plain(strategy)
    train_step = rated_step(strategy, variables)
    for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(plain_data())):
        rate = np.float32(RATE + 0.1 * number * (strategy.num_replicas_in_sync - 1))  # guilty
        record.step(loss=train_step(x, y, rate), variables=variables)


def train_fourth_length(strategy, record):
    """Another graph for the fourth number of rows."""
    variables = plain(strategy)
    rate = [RATE]

    @tf.function
    def train_step(x, y):
        def replica_step(x, y):
            loss, gradients = gradients_of(x, y, variables)
            descend(variables, gradients, rate[0])
            return loss

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    rows = iter((8, 6, 4, 2))
    parts = [plain_data().unbatch().take(n).batch(n) for n in rows]
    data = parts[0]
    for part in parts[1:]:
        data = data.concatenate(part)
    for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(data)):
        if number == 3:
            rate[0] = RATE * strategy.num_replicas_in_sync  # guilty
        record.step(loss=train_step(x, y), variables=variables)
