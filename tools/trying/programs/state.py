"""What is kept from step to step besides the weights: counters, moving averages, schedules, memories, metrics."""

import numpy as np
import tensorflow as tf

BATCH, STEPS = 8, 3
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN
FIRST = tf.VariableAggregation.ONLY_FIRST_REPLICA


def context():
    return tf.distribute.get_replica_context()


def dataset():
    random = np.random.default_rng(12)
    x = random.normal(size=(BATCH * STEPS, 4)).astype("float32")
    y = (x[:, :1] * np.linspace(0.5, 2.0, BATCH * STEPS)[:, None]).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)


def variable(strategy, value, name, aggregation=tf.VariableAggregation.MEAN, **options):
    with strategy.scope():
        return tf.Variable(value, name=name, aggregation=aggregation, **options)


def weights(strategy):
    return variable(strategy, [[0.5], [-0.5], [0.1], [0.3]], "w")


def part(x, y, w):
    return tf.reduce_sum((x @ w - y) ** 2) / BATCH


def loop(strategy, record, replica_step, variables):
    @tf.function
    def train_step(x, y):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(dataset()):
        record.step(loss=train_step(x, y), variables=variables)


def balanced(strategy, record, aggregation):
    """A loss that is balanced by counts of classes, to which each replica adds its own."""
    w = weights(strategy)
    seen = variable(strategy, [1.0, 1.0], "seen", aggregation)

    def replica_step(x, y):
        kind = tf.cast(y[:, 0] > 0, tf.int32)
        seen.assign_add(tf.reduce_sum(tf.one_hot(kind, 2), axis=0))  # guilty: train_counts_averaged
        balance = tf.gather(tf.reduce_sum(seen) / (2.0 * seen), kind)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(balance * (x @ w - y)[:, 0] ** 2) / BATCH
        w.assign_sub(0.1 * context().all_reduce(SUM, tape.gradient(loss, w)))
        return loss

    loop(strategy, record, replica_step, [w])


# ---- wrong ----


def train_counts_averaged(strategy, record):
    """The mean of the replicas' counts is added."""
    balanced(strategy, record, tf.VariableAggregation.MEAN)


def train_share_of_first_replica(strategy, record):
    """Moving shares of two classes, by what the first replica of each worker has of them."""
    w = weights(strategy)
    share = variable(strategy, [0.5, 0.5], "share")

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = part(x, y, w * (0.5 + share[0]))
        w.assign_sub(0.1 * context().all_reduce(SUM, tape.gradient(loss, w)))
        return loss, tf.reduce_mean(tf.one_hot(tf.cast(y[:, 0] > 0, tf.int32), 2), axis=0)  # guilty

    @tf.function
    def train_step(x, y):
        losses, shares = strategy.run(replica_step, args=(x, y))
        share.assign(0.8 * share + 0.2 * strategy.experimental_local_results(shares)[0])  # guilty
        return strategy.reduce(SUM, losses, axis=None)

    for x, y in strategy.experimental_distribute_dataset(dataset()):
        record.step(loss=train_step(x, y))


def train_counter_counts_replicas(strategy, record):
    """A decaying rate, by a counter to which every replica adds one."""
    w = weights(strategy)
    steps = variable(strategy, 0.0, "steps", tf.VariableAggregation.SUM)  # guilty

    def replica_step(x, y):
        steps.assign_add(tf.ones([]))  # guilty
        with tf.GradientTape() as tape:
            loss = part(x, y, w)
        gradient = context().all_reduce(SUM, tape.gradient(loss, w))
        w.assign_sub(0.2 / (1.0 + steps) * gradient)
        return loss

    loop(strategy, record, replica_step, [w])


def train_rate_by_a_shared_count(strategy, record):
    """Of which there is one for all replicas, as it was made outside of the scope."""
    w, count = weights(strategy), tf.Variable(0.0, name="count")  # guilty

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = part(x, y, w)
        w.assign_sub(0.1 / (1.0 + count) * context().all_reduce(SUM, tape.gradient(loss, w)))
        count.assign_add(1.0)  # guilty
        return loss

    loop(strategy, record, replica_step, [w])


def train_average_of_weights_summed(strategy, record):
    """An exponential average of the weights, in a variable that sums what replicas assign."""
    w = weights(strategy)
    average = variable(strategy, w.numpy(), "average", tf.VariableAggregation.SUM)  # guilty

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = part(x, y, w)
        w.assign_sub(0.1 * context().all_reduce(SUM, tape.gradient(loss, w)))
        average.assign(0.9 * average + 0.1 * w)  # guilty
        return loss

    loop(strategy, record, replica_step, [w, average])


def train_baseline_of_first_replica(strategy, record):
    """Examples count by how much worse they are than a moving average of the loss, which is the first replica's."""
    w = weights(strategy)
    baseline = variable(strategy, 1.0, "baseline", FIRST)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            errors = tf.reduce_sum((x @ w - y) ** 2, axis=1)
            loss = tf.reduce_sum(tf.nn.softplus(errors - baseline)) / BATCH
        baseline.assign(0.5 * baseline + 0.5 * tf.reduce_mean(errors))  # guilty
        w.assign_sub(0.1 * context().all_reduce(SUM, tape.gradient(loss, w)))
        return loss

    loop(strategy, record, replica_step, [w])


def train_rate_from_local_loss(strategy, record):
    """A rate that falls with the loss, each replica's with its own."""
    w = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = part(x, y, w)
        rate = 0.1 * tf.minimum(1.0, loss * strategy.num_replicas_in_sync)  # guilty
        w.assign_sub(rate * context().all_reduce(SUM, tape.gradient(loss, w)))  # guilty
        return loss

    loop(strategy, record, replica_step, [w])


def train_range_of_first_replica(strategy, record):
    """Activations are quantized by the largest ever seen, on the first replica."""
    w = weights(strategy)
    largest = variable(strategy, 0.1, "largest", FIRST)

    def replica_step(x, y):
        largest.assign(tf.maximum(largest, tf.reduce_max(tf.abs(x))))  # guilty
        scaled = tf.clip_by_value(x / largest, -1.0, 1.0)
        with tf.GradientTape() as tape:
            loss = part(scaled, y, w)
        w.assign_sub(0.1 * context().all_reduce(SUM, tape.gradient(loss, w)))
        return loss

    loop(strategy, record, replica_step, [w])


def train_running_mean_kept_locally(strategy, record):
    """A running mean of the features, of which every replica has its own."""
    w = weights(strategy)
    options = {"synchronization": tf.VariableSynchronization.ON_READ, "trainable": False}
    mean = variable(strategy, tf.zeros([4]), "mean", **options)  # guilty

    def replica_step(x, y):
        mean.assign(0.5 * mean + 0.5 * tf.reduce_mean(x, axis=0))  # guilty
        with tf.GradientTape() as tape:
            loss = part(x - mean, y, w)
        w.assign_sub(0.1 * context().all_reduce(SUM, tape.gradient(loss, w)))
        return loss

    loop(strategy, record, replica_step, [w])


def train_memory_of_first_replica(strategy, record):
    """A memory of the last outputs, to which new ones are compared, keeps the first replica's."""
    w = weights(strategy)
    memory = variable(strategy, tf.ones([4]), "memory", FIRST)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            output = (x @ w)[:, 0]
            spread = tf.reduce_sum((output[:, None] - memory[None, :]) ** 2) / 4
            loss = part(x, y, w) + 0.1 * spread / BATCH
        memory.assign(output[-4:])  # guilty
        w.assign_sub(0.1 * context().all_reduce(SUM, tape.gradient(loss, w)))
        return loss

    loop(strategy, record, replica_step, [w])


def train_count_of_first_replica(strategy, record):
    """The training is right; hits are counted on the first replica."""
    w = weights(strategy)
    hits = variable(strategy, 0.0, "hits", FIRST, trainable=False)  # guilty

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = part(x, y, w)
        w.assign_sub(0.1 * context().all_reduce(SUM, tape.gradient(loss, w)))
        hits.assign_add(tf.reduce_sum(tf.cast(tf.abs(x @ w - y) < 0.6, tf.float32)))  # guilty
        return loss

    @tf.function
    def train_step(x, y):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(dataset()):
        loss = train_step(x, y)
        record.step(loss=loss, variables=[w], metrics={"hits": hits.read_value()})


# ---- right ----


def train_right_counter(strategy, record):
    w = weights(strategy)
    steps = variable(strategy, 0.0, "steps", FIRST)

    def replica_step(x, y):
        steps.assign_add(1.0)
        with tf.GradientTape() as tape:
            loss = part(x, y, w)
        gradient = context().all_reduce(SUM, tape.gradient(loss, w))
        w.assign_sub(0.2 / (1.0 + steps) * gradient)
        return loss

    loop(strategy, record, replica_step, [w])


def train_right_counts(strategy, record):
    """The sum of the replicas' counts is added."""
    balanced(strategy, record, tf.VariableAggregation.SUM)


def train_right_average_of_weights(strategy, record):
    w = weights(strategy)
    average = variable(strategy, w.numpy(), "average")

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = part(x, y, w)
        w.assign_sub(0.1 * context().all_reduce(SUM, tape.gradient(loss, w)))
        average.assign(0.9 * average + 0.1 * w)
        return loss

    loop(strategy, record, replica_step, [w, average])


def train_right_baseline(strategy, record):
    w = weights(strategy)
    baseline = variable(strategy, 1.0, "baseline")

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            errors = tf.reduce_sum((x @ w - y) ** 2, axis=1)
            loss = tf.reduce_sum(tf.nn.softplus(errors - baseline)) / BATCH
        mean = context().all_reduce(SUM, tf.reduce_sum(errors)) / BATCH
        baseline.assign(0.5 * baseline + 0.5 * mean)
        w.assign_sub(0.1 * context().all_reduce(SUM, tape.gradient(loss, w)))
        return loss

    loop(strategy, record, replica_step, [w])


def train_right_running_mean(strategy, record):
    """Replicas have shares of the same size, so that a variable that averages has the mean of all."""
    w = weights(strategy)
    mean = variable(strategy, tf.zeros([4]), "mean")

    def replica_step(x, y):
        mean.assign(0.5 * mean + 0.5 * tf.reduce_mean(x, axis=0))
        with tf.GradientTape() as tape:
            loss = part(x - mean, y, w)
        w.assign_sub(0.1 * context().all_reduce(SUM, tape.gradient(loss, w)))
        return loss

    loop(strategy, record, replica_step, [w])


def train_right_count(strategy, record):
    """Hits are counted by each replica and summed when they are read."""
    w = weights(strategy)
    options = {"synchronization": tf.VariableSynchronization.ON_READ, "trainable": False}
    hits = variable(strategy, 0.0, "hits", tf.VariableAggregation.SUM, **options)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = part(x, y, w)
        w.assign_sub(0.1 * context().all_reduce(SUM, tape.gradient(loss, w)))
        hits.assign_add(tf.reduce_sum(tf.cast(tf.abs(x @ w - y) < 0.6, tf.float32)))
        return loss

    @tf.function
    def train_step(x, y):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(dataset()):
        loss = train_step(x, y)
        record.step(loss=loss, variables=[w], metrics={"hits": hits.read_value()})
