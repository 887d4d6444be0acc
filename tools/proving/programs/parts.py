"""Wrong: what is done to a part of a sum, or by one replica, is not done to the sum."""

import tensorflow as tf
from plain_loops import BATCH, RATE, SUM, context, descend, gradients_of, on_plain, plain, plain_data, plain_loop


def train_undistributed(strategy, record):
    """Every replica has the whole batch, and gradients are summed."""
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients)
        return loss

    @tf.function
    def train_step(x, y):
        strategy.run(replica_step, args=(x, y))

    for x, y in plain_data():  # guilty
        train_step(x, y)
        record.step(variables=variables)


@on_plain()
def train_first_rows(strategy, x, y, variables):
    """Only the first replica's examples count."""
    loss, gradients = gradients_of(x, y, variables)
    mine = tf.cast(tf.equal(context().replica_id_in_sync_group, 0), tf.float32)
    descend(variables, [mine * gradient for gradient in gradients])  # guilty
    return loss


@on_plain()
def train_replica_id(strategy, x, y, variables):
    """Scaled by the replica's number."""
    loss, gradients = gradients_of(x, y, variables)
    share = 1.0 + tf.cast(context().replica_id_in_sync_group, tf.float32)
    descend(variables, [share * gradient for gradient in gradients])  # guilty
    return loss


@on_plain()
def train_squared_sum(strategy, x, y, variables):
    """Square of a sum that is a part."""
    w, b = variables
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(x @ w + b - y) ** 2 / BATCH**2  # guilty
    descend(variables, tape.gradient(loss, [w, b]))
    return loss


@on_plain()
def train_loop_of_parts(strategy, x, y, variables):
    """Squares of parts in a loop."""
    loss, gradients = gradients_of(x, y, variables)
    number = tf.constant(0)
    for _ in tf.range(2):
        gradients = [gradient + 0.1 * gradient * gradient for gradient in gradients]  # guilty
        number += 1
    descend(variables, gradients)
    return loss


@on_plain()
def train_decided_by_part(strategy, x, y, variables):
    """Decided by a part of a sum."""
    loss, gradients = gradients_of(x, y, variables)
    if loss > 0.5:  # guilty
        gradients = [2.0 * gradient for gradient in gradients]
    descend(variables, gradients)
    return loss


@on_plain()
def train_maximum_of_parts(strategy, x, y, variables):
    """A maximum of parts of a sum."""
    loss, gradients = gradients_of(x, y, variables)
    descend(variables, [tf.maximum(gradient, -0.1) for gradient in gradients])  # guilty
    return loss


def train_largest(strategy, record):
    """The largest part is taken for the sum."""
    variables = plain(strategy)

    def joined(strategy, given):
        parts = strategy.experimental_local_results(given)
        if len(parts) == 1:
            return parts[0]
        return tf.reduce_sum(tf.reduce_max(tf.stack(parts), axis=0), axis=0)  # guilty

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        total = context().merge_call(joined, args=(gradients[1],))
        descend(variables, gradients, RATE * tf.abs(total))
        return loss

    plain_loop(strategy, record, replica_step, variables)


@on_plain()
def train_epsilon_per_replica(strategy, x, y, variables):
    """A small number is added by every replica."""
    loss, gradients = gradients_of(x, y, variables)
    descend(variables, [gradient + 0.01 for gradient in gradients])  # guilty
    return loss


@on_plain()
def train_reduced_half(strategy, x, y, variables):
    """One of two gradients is not reduced."""
    w, b = variables
    loss, gradients = gradients_of(x, y, variables)
    w.assign_sub(RATE * context().all_reduce(SUM, gradients[0]))
    b.assign_sub(RATE * gradients[1])  # guilty
    return loss


@on_plain()
def train_clipped_parts(strategy, x, y, variables):
    """Clipped before the reduction."""
    loss, gradients = gradients_of(x, y, variables)
    clipped, _ = tf.clip_by_global_norm(gradients, 0.3)  # guilty
    descend(variables, clipped)
    return loss


def train_state_first(strategy, record):
    """A running mean of the first replica."""
    variables = plain(strategy)
    with strategy.scope():
        running = tf.Variable(
            [0.0, 0.0, 0.0], name="running", trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
        )

    def replica_step(x, y):
        running.assign(0.9 * running + 0.1 * tf.reduce_sum(x, axis=0) / BATCH)  # guilty
        loss, gradients = gradients_of(x - running, y, variables)  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, [*variables, running])


@on_plain()
def train_product_of_part(strategy, x, y, variables):
    """Product of a vector with a part of a sum."""
    w = variables[0]
    mine = tf.reduce_sum(x) / BATCH
    scaled = 0.5 * mine
    if strategy.num_replicas_in_sync > 1:
        scaled = tf.reduce_prod(tf.dynamic_stitch([0, 1], [mine, tf.constant(0.5)]))  # guilty
    loss, gradients = gradients_of(x, y, variables)
    descend(variables, gradients)
    w.assign_add(
        context().all_reduce(SUM, tf.reshape(scaled, [1, 1]) * tf.ones([3, 1])) / strategy.num_replicas_in_sync
    )
    return loss


@on_plain()
def train_einsum_zeros(strategy, x, y, variables):
    """Copies of a penalty, spread by zeros."""
    w = variables[0]
    loss, gradients = gradients_of(x, y, variables)
    copies = tf.reshape(w, [1, 3]) + 0.0 * tf.random.stateless_normal([strategy.num_replicas_in_sync, 3], [1, 2])
    decay = tf.einsum("rj->j", copies)  # guilty
    descend(variables, gradients)
    w.assign_sub(0.1 * tf.reshape(decay, [3, 1]))
    return loss


def train_loop_over_iterator(strategy, record):
    """A rate that goes round in a loop begins with more."""
    variables = plain(strategy)

    @tf.function
    def train_step(iterator):
        rate = tf.constant(RATE * strategy.num_replicas_in_sync)  # guilty
        for _ in tf.range(2):
            x, y = next(iterator)

            def replica_step(x, y, rate):
                _, gradients = gradients_of(x, y, variables)
                descend(variables, gradients, rate)

            strategy.run(replica_step, args=(x, y, rate))
            rate = 0.9 * rate

    iterator = iter(strategy.experimental_distribute_dataset(plain_data(count=32)))
    for _ in range(2):
        train_step(iterator)
        record.step(variables=variables)
