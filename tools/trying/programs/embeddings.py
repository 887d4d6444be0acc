"""An embedding whose rows stand on parameter servers: workers look rows up, and update those that they have used."""

import numpy as np
import tensorflow as tf

BATCH, STEPS, ROWS, RATE = 8, 3, 16, 0.5
random = np.random.default_rng(5)
TABLE = random.normal(size=(ROWS, 4)).astype("float32")
IDS = random.integers(0, ROWS, size=(STEPS, BATCH))  # with some twice in a batch
TARGETS = random.normal(size=(STEPS, BATCH, 4)).astype("float32")


class Here:
    """Without a cluster a step is done where it is scheduled."""

    def schedule(self, function, args):
        return function(*args)

    def join(self):
        pass

    def fetch(self, value):
        return value


def coordinator_of(strategy):
    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        return tf.distribute.coordinator.ClusterCoordinator(strategy)
    return Here()


def shards_of(table):
    """Each with the number of its first row."""
    shards = getattr(table, "variables", [table])
    sizes = [shard.shape[0] for shard in shards]
    return [(shard, sum(sizes[:number])) for number, shard in enumerate(shards)]


def loop(strategy, record, update):
    """The gradient of a lookup is of the rows that were used, and `update` takes them off the table."""
    coordinator = coordinator_of(strategy)
    with strategy.scope():
        table = tf.Variable(TABLE, name="table")

    def replica_step(ids, targets):
        rows = tf.nn.embedding_lookup(table, ids)
        with tf.GradientTape() as tape:
            tape.watch(rows)
            loss = tf.reduce_sum((rows - targets) ** 2) / BATCH
        update(table, ids, RATE * tape.gradient(loss, rows))
        return loss

    @tf.function
    def step(ids, targets):
        return strategy.run(replica_step, args=(ids, targets))

    for ids, targets in zip(IDS, TARGETS):
        loss = coordinator.schedule(step, args=(tf.constant(ids), tf.constant(targets)))
        coordinator.join()
        record.step(loss=coordinator.fetch(loss), variables=[table])


def train_right_slices(strategy, record):
    """Each shard gets its own rows."""

    def update(table, ids, change):
        for shard, first in shards_of(table):
            own = tf.where((ids >= first) & (ids < first + shard.shape[0]))[:, 0]
            shard.scatter_sub(tf.IndexedSlices(tf.gather(change, own), tf.gather(ids, own) - first))

    loop(strategy, record, update)


def train_right_gradients_of_shards(strategy, record):
    """A tape knows which rows of which shard were used."""
    coordinator = coordinator_of(strategy)
    with strategy.scope():
        table = tf.Variable(TABLE, name="table")

    def replica_step(ids, targets):
        shards = [shard for shard, _ in shards_of(table)]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.nn.embedding_lookup(table, ids) - targets) ** 2) / BATCH
        for shard, gradient in zip(shards, tape.gradient(loss, shards)):
            shard.scatter_sub(tf.IndexedSlices(RATE * gradient.values, gradient.indices))
        return loss

    @tf.function
    def step(ids, targets):
        return strategy.run(replica_step, args=(ids, targets))

    for ids, targets in zip(IDS, TARGETS):
        loss = coordinator.schedule(step, args=(tf.constant(ids), tf.constant(targets)))
        coordinator.join()
        record.step(loss=coordinator.fetch(loss), variables=[table])


def train_rows_updated_twice(strategy, record):
    """Every shard takes every row for its own."""

    def update(table, ids, change):
        for shard, _ in shards_of(table):
            shard.scatter_sub(tf.IndexedSlices(change, ids % shard.shape[0]))  # guilty

    loop(strategy, record, update)


def train_rows_of_another_shard(strategy, record):
    """Rows are dealt out to shards one by one, and lookups take them in blocks."""

    def update(table, ids, change):
        shards = shards_of(table)
        for number, (shard, _) in enumerate(shards):
            own = tf.where(ids % len(shards) == number)[:, 0]
            shard.scatter_sub(tf.IndexedSlices(tf.gather(change, own), tf.gather(ids, own) // len(shards)))  # guilty

    loop(strategy, record, update)
