"""Right and wrong: variables that replicas keep for themselves, read and write in their own ways."""

import tensorflow as tf
from plain_loops import (
    BATCH,
    RATE,
    SUM,
    context,
    descend,
    gradients_of,
    on_plain,
    plain,
    plain_data,
    plain_loop,
    rate_of,
    right_step,
)

AGGREGATION, SYNCHRONIZATION = tf.VariableAggregation, tf.VariableSynchronization


def kept(strategy, aggregation, synchronization=SYNCHRONIZATION.ON_WRITE, start=0.0):
    with strategy.scope():
        return tf.Variable(
            start, trainable=False, aggregation=aggregation, synchronization=synchronization, name="kept"
        )


def with_kept(strategy, record, aggregation, synchronization, what, use=None):
    variables = plain(strategy)
    held = kept(strategy, aggregation, synchronization)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        what(held, x, loss)
        descend(variables, gradients, RATE if use is None else RATE * use(held))
        return loss

    plain_loop(strategy, record, replica_step, (*variables, held))


def seen_of(x):
    return tf.cast(tf.shape(x)[0], tf.float32)


def train_seen_sum(strategy, record):
    """Right: examples that were seen, added up over the replicas."""
    with_kept(
        strategy, record, AGGREGATION.SUM, SYNCHRONIZATION.ON_WRITE, lambda held, x, _: held.assign_add(seen_of(x))
    )


def train_seen_mean(strategy, record):
    """Numbers of examples are averaged over the replicas."""
    with_kept(
        strategy,
        record,
        AGGREGATION.MEAN,
        SYNCHRONIZATION.ON_WRITE,
        lambda held, x, _: held.assign_add(seen_of(x)),  # guilty
    )


def train_seen_first(strategy, record):
    """Only the first replica's number of examples."""
    with_kept(
        strategy,
        record,
        AGGREGATION.ONLY_FIRST_REPLICA,
        SYNCHRONIZATION.ON_WRITE,
        lambda held, x, _: held.assign_add(seen_of(x)),  # guilty
    )


def train_read_sum(strategy, record):
    """Right: each replica counts for itself, and reading adds up."""
    with_kept(
        strategy, record, AGGREGATION.SUM, SYNCHRONIZATION.ON_READ, lambda held, x, _: held.assign_add(seen_of(x))
    )


def train_read_mean(strategy, record):
    """Numbers of examples of each replica, averaged when read."""
    with_kept(
        strategy,
        record,
        AGGREGATION.MEAN,
        SYNCHRONIZATION.ON_READ,
        lambda held, x, _: held.assign_add(seen_of(x)),  # guilty
    )


def train_read_first(strategy, record):
    """Of what each replica keeps the first one's is read."""
    with_kept(
        strategy,
        record,
        AGGREGATION.ONLY_FIRST_REPLICA,
        SYNCHRONIZATION.ON_READ,
        lambda held, x, loss: held.assign(0.9 * held + 0.1 * loss),  # guilty
    )


def train_read_ones(strategy, record):
    """Each replica counts a step, and they are added up."""
    with_kept(
        strategy,
        record,
        AGGREGATION.SUM,
        SYNCHRONIZATION.ON_READ,
        lambda held, x, _: held.assign_add(1.0),  # guilty
    )


def train_read_inside(strategy, record):
    """A rate by what the replica itself has counted."""
    with_kept(
        strategy,
        record,
        AGGREGATION.SUM,
        SYNCHRONIZATION.ON_READ,
        lambda held, x, _: held.assign_add(seen_of(x)),
        use=lambda held: 1.0 / (1.0 + held.read_value()),  # guilty
    )


def train_largest_loss(strategy, record):
    """The largest loss of each replica, averaged."""
    with_kept(
        strategy,
        record,
        AGGREGATION.MEAN,
        SYNCHRONIZATION.ON_READ,
        lambda held, x, loss: held.assign(tf.maximum(held, loss)),  # guilty
    )


def train_moving_loss(strategy, record):
    """Right: a moving mean of a part of a sum, which is one of the sum."""
    with_kept(
        strategy,
        record,
        AGGREGATION.SUM,
        SYNCHRONIZATION.ON_READ,
        lambda held, x, loss: held.assign(0.9 * held + 0.1 * loss),
    )


def train_moving_square(strategy, record):
    """Squares of each replica's loss, added up."""
    with_kept(
        strategy,
        record,
        AGGREGATION.SUM,
        SYNCHRONIZATION.ON_READ,
        lambda held, x, loss: held.assign(0.9 * held + 0.1 * loss**2),  # guilty
    )


def train_rate_by_seen(strategy, record):
    """Right: a rate by all examples that were seen."""
    with_kept(
        strategy,
        record,
        AGGREGATION.SUM,
        SYNCHRONIZATION.ON_WRITE,
        lambda held, x, _: held.assign_add(seen_of(x)),
        use=lambda held: 1.0 / (1.0 + 0.01 * held),
    )


def train_rate_by_steps_seen(strategy, record):
    """A rate by steps times the replicas."""
    replicas = float(strategy.num_replicas_in_sync)
    with_kept(
        strategy,
        record,
        AGGREGATION.MEAN,
        SYNCHRONIZATION.ON_WRITE,
        lambda held, x, _: held.assign_add(replicas),  # guilty
        use=lambda held: 1.0 / (1.0 + 0.1 * held),
    )


def train_averaged_weights(strategy, record):
    """Right: a moving mean of the weights, after they have changed."""
    variables = plain(strategy)
    with strategy.scope():
        shadows = [tf.Variable(each, trainable=False, name="shadow") for each in variables]

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients)
        for shadow, variable in zip(shadows, variables):
            context().merge_call(
                lambda strategy, one, other: strategy.extended.update(
                    one, lambda v, o: v.assign(0.9 * v + 0.1 * o), args=(other,)
                ),
                args=(shadow, variable),
            )
        return loss

    plain_loop(strategy, record, replica_step, (*variables, *shadows))


def train_outside_scope(strategy, record):
    """A variable of no scope, changed by every replica."""
    variables = plain(strategy)
    count = tf.Variable(0.0, trainable=False, name="count")

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        count.assign_add(1.0)  # guilty
        descend(variables, gradients, RATE / (1.0 + 0.1 * count))
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_queued(strategy, record):
    """What a replica takes out of a queue that all have."""
    variables = plain(strategy)
    queue = tf.queue.FIFOQueue(8, [tf.float32], shapes=[[]])

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        queue.enqueue(loss)
        descend(variables, gradients, RATE / (1.0 + queue.dequeue()))  # guilty
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_table(strategy, record):
    """A table that all replicas count in."""
    variables = plain(strategy)
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)

    def replica_step(x, y):
        labels = tf.cast(tf.round(y[:, 0]), tf.int64)
        table.insert(labels, 1.0 + table.lookup(labels))
        loss, gradients = gradients_of(x, y, variables, tf.reduce_max(table.lookup(labels)) / BATCH)  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_given_rate(strategy, record):
    """Each replica is given a rate of its own."""
    variables = plain(strategy)
    rates = strategy.experimental_distribute_values_from_function(
        lambda given: tf.constant(1.0 + given.replica_id_in_sync_group)
    )

    @tf.function
    def train_step(x, y, rate):
        def replica_step(x, y, rate):
            loss, gradients = gradients_of(x, y, variables)
            descend(variables, [rate * each for each in gradients])  # guilty
            return loss

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y, rate)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        record.step(loss=train_step(x, y, rates), variables=variables)


@on_plain()
def train_seeds_of_replicas(strategy, x, y, variables):
    """A seed for each replica's features."""
    seed = tf.stack([1, context().replica_id_in_sync_group])
    mask = tf.cast(tf.random.stateless_uniform([3], seed) > 0.3, tf.float32)  # guilty
    loss, gradients = gradients_of(x * mask, y, variables)
    descend(variables, gradients)
    return loss


def train_stops_early(strategy, record):
    """Stops by the first replica's loss."""
    variables = plain(strategy)

    @tf.function
    def train_step(x, y):
        def replica_step(x, y):
            loss, gradients = gradients_of(x, y, variables)
            descend(variables, gradients)
            return loss

        return strategy.run(replica_step, args=(x, y))

    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        losses = train_step(x, y)
        record.step(loss=strategy.reduce(SUM, losses, axis=None), variables=variables)
        if strategy.experimental_local_results(losses)[0] < 0.4:  # guilty
            break


def train_rate_by_rows_of_first(strategy, record):
    """A rate by the examples of the first replica, counted outside of the function."""
    variables = plain(strategy)
    rate = rate_of(strategy)
    train_step = right_step(strategy, variables, rate)
    seen = 0
    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        record.step(loss=train_step(x, y), variables=variables)
        seen += int(strategy.experimental_local_results(x)[0].shape[0])
        rate.assign(RATE / (1.0 + 0.05 * seen))  # guilty


def train_standardised_data(strategy, record):
    """Data is centred within the batches that a pipeline makes."""
    variables = plain(strategy)

    def pipeline(given):
        size = given.get_per_replica_batch_size(BATCH)
        data = plain_data().unbatch().shard(given.num_input_pipelines, given.input_pipeline_id).batch(size)
        return data.map(lambda x, y: (x - tf.reduce_mean(x, axis=0), y))  # guilty

    train_step = right_step(strategy, variables)
    for x, y in strategy.distribute_datasets_from_function(pipeline):
        record.step(loss=train_step(x, y), variables=variables)
