"""Dropout and random augmentation: one stream for all replicas, a stream for each, or a draw for each example."""

import keras
import numpy as np
import tensorflow as tf

BATCH, STEPS, RATE = 8, 3, 0.1
SUM = tf.distribute.ReduceOp.SUM


def context():
    return tf.distribute.get_replica_context()


def dataset():
    random = np.random.default_rng(0)
    x = random.normal(size=(BATCH * STEPS, 6)).astype("float32")
    y = x[:, :2].sum(axis=1, keepdims=True).astype("float32")
    return tf.data.Dataset.from_tensor_slices((np.arange(BATCH * STEPS), x, y)).batch(BATCH)


def weights(strategy):
    start = np.random.default_rng(1).normal(size=(6, 1)).astype("float32")
    with strategy.scope():
        return tf.Variable(0.3 * start, name="w", aggregation=tf.VariableAggregation.MEAN)


def descend(w, x, y):
    with tf.GradientTape() as tape:
        losses = tf.reduce_sum((x @ w - y) ** 2, axis=1)
        loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
    w.assign_sub(RATE * context().all_reduce(SUM, tape.gradient(loss, w)))
    return loss


def loop(strategy, record, replica_step, variables, shared=lambda: ()):
    """`shared` makes what all replicas get besides their examples, once a step."""

    @tf.function
    def train_step(step, batch):
        losses = strategy.run(replica_step, args=(step, *batch, *shared()))
        return strategy.reduce(SUM, losses, axis=None)

    for step, batch in enumerate(strategy.experimental_distribute_dataset(dataset())):
        record.step(loss=train_step(tf.constant(step), batch), variables=variables)


# ---- wrong ----


def train_same_mask(strategy, record):
    """Dropout whose seed is that of the step: every replica drops the same places."""
    w = weights(strategy)

    def replica_step(step, ids, x, y):
        kept = tf.random.stateless_uniform(tf.shape(x), seed=[3, step]) > 0.3  # guilty
        return descend(w, tf.where(kept, x / 0.7, 0.0), y)

    loop(strategy, record, replica_step, [w])


def train_seeds_by_place(strategy, record):
    """Noise whose seed is the example's place in the batch, which is that in the replica's batch."""
    w = weights(strategy)

    def replica_step(step, ids, x, y):
        places = tf.range(tf.shape(x)[0])  # guilty
        noise = tf.map_fn(lambda place: tf.random.stateless_normal([6], [place, step]), places, tf.float32)  # guilty
        return descend(w, x + 0.5 * noise, y)

    loop(strategy, record, replica_step, [w])


def train_scale_drawn_by_each(strategy, record):
    """One random scale for the whole batch, that every replica draws from a generator of its own."""
    w = weights(strategy)
    with strategy.scope():
        generator = tf.random.Generator.from_seed(5)  # guilty

    def replica_step(step, ids, x, y):
        scale = generator.uniform([], 0.5, 1.5)  # guilty
        return descend(w, scale * x, y)

    loop(strategy, record, replica_step, [w])


def train_mixed_within_replica(strategy, record):
    """Each example is mixed with another of its batch, which is another one where the batch is smaller."""
    w = weights(strategy)

    def replica_step(step, ids, x, y):
        x = 0.7 * x + 0.3 * tf.reverse(x, [0])  # guilty
        y = 0.7 * y + 0.3 * tf.reverse(y, [0])  # guilty
        return descend(w, x, y)

    loop(strategy, record, replica_step, [w])


def train_dropout_layer(strategy, record):
    """A layer that draws from its own seed on every replica."""
    with strategy.scope():
        start = keras.initializers.GlorotUniform(seed=1)
        dropout = keras.layers.Dropout(0.3, seed=4)  # guilty
        model = keras.Sequential([keras.Input((6,)), dropout, keras.layers.Dense(1, kernel_initializer=start)])
        optimizer = keras.optimizers.SGD(RATE)
        optimizer.build(model.trainable_variables)

    def replica_step(step, ids, x, y):
        with tf.GradientTape() as tape:
            output = model(x, training=True)  # guilty
            losses = tf.reduce_sum((output - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model.trainable_variables)


# ---- right ----


def train_right_mask(strategy, record):
    """The seed is the example's number, wherever the example is."""
    w = weights(strategy)

    def replica_step(step, ids, x, y):
        kept = tf.map_fn(lambda one: tf.random.stateless_uniform([6], [3, one]) > 0.3, ids, tf.bool)
        return descend(w, tf.where(kept, x / 0.7, 0.0), y)

    loop(strategy, record, replica_step, [w])


def train_right_shared_scale(strategy, record):
    """One random scale, drawn once and given to all."""
    w = weights(strategy)
    generator = tf.random.Generator.from_seed(5)

    def replica_step(step, ids, x, y, scale):
        return descend(w, scale * x, y)

    loop(strategy, record, replica_step, [w], lambda: (generator.uniform([], 0.5, 1.5),))


def train_right_same_features(strategy, record):
    """Features are dropped for all examples of a step alike; so all replicas have to drop the same."""
    w = weights(strategy)

    def replica_step(step, ids, x, y):
        kept = tf.random.stateless_uniform([6], seed=[3, step]) > 0.3
        return descend(w, tf.where(kept, x, 0.0), y)

    loop(strategy, record, replica_step, [w])
