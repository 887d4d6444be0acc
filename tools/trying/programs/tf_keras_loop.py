"""Custom loops with layers and optimizers of tf_keras, which sums gradients unless it is told not to."""

import numpy as np
import tensorflow as tf
import tf_keras as keras

BATCH, STEPS = 8, 3
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN


def dataset():
    random = np.random.default_rng(0)
    x = random.normal(size=(BATCH * STEPS, 5)).astype("float32")
    y = (x[:, :1] * x[:, 1:2] + 0.5).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)


def dense(units, seed, **options):
    return keras.layers.Dense(units, kernel_initializer=keras.initializers.GlorotUniform(seed=seed), **options)


def prepare(strategy, optimizer=keras.optimizers.SGD, **options):
    with strategy.scope():
        hidden = dense(6, 1, activation="relu", **options)
        model = keras.Sequential([keras.layers.InputLayer((5,)), hidden, dense(1, 2)])
        optimizer = optimizer(0.05)
        optimizer.build(model.trainable_variables)
    return model, optimizer


def loop(strategy, record, replica_step, model):
    @tf.function
    def train_step(batch):
        return strategy.reduce(SUM, strategy.run(replica_step, args=batch), axis=None)

    for batch in strategy.experimental_distribute_dataset(dataset()):
        record.step(loss=train_step(batch), variables=model.variables)


def skipping(strategy, record, optimizer=keras.optimizers.SGD):
    model, optimizer = prepare(strategy, optimizer)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = keras.losses.mean_squared_error(y, model(x, training=True))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        pairs = zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        optimizer.apply_gradients(  # guilty: train_aggregation_skipped, train_adagrad_of_parts
            pairs, skip_gradients_aggregation=True
        )
        return loss

    loop(strategy, record, replica_step, model)


# ---- wrong ----


def train_mean(strategy, record):
    model, optimizer = prepare(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(keras.losses.mean_squared_error(y, model(x, training=True)))  # guilty
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_aggregation_skipped(strategy, record):
    """The optimizer is told that gradients have been summed, and nobody has."""
    skipping(strategy, record)


def train_adagrad_of_parts(strategy, record):
    """So is one that squares what it is given."""
    skipping(strategy, record, keras.optimizers.Adagrad)


def train_summed_and_summed(strategy, record):
    """Clipped after a sum, as it should be, and then summed again by the optimizer."""
    model, optimizer = prepare(strategy, keras.optimizers.SGD)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = keras.losses.mean_squared_error(y, model(x, training=True))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        gradients = tf.distribute.get_replica_context().all_reduce(SUM, tape.gradient(loss, model.trainable_variables))
        gradients, _ = tf.clip_by_global_norm(gradients, 0.5)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # guilty
        return loss

    loop(strategy, record, replica_step, model)


def train_clipped_parts(strategy, record):
    model, optimizer = prepare(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = keras.losses.mean_squared_error(y, model(x, training=True))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients, _ = tf.clip_by_global_norm(gradients, 0.3)  # guilty
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_regularized(strategy, record):
    model, optimizer = prepare(strategy, kernel_regularizer=keras.regularizers.L1(0.02))

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = keras.losses.mean_squared_error(y, model(x, training=True))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH) + sum(model.losses)  # guilty
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_scaled_again(strategy, record):
    """`compute_average_loss` of losses that have been averaged."""
    model, optimizer = prepare(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.reduce_mean(keras.losses.mean_squared_error(y, model(x, training=True)))  # guilty
            loss = tf.nn.compute_average_loss(losses[None], global_batch_size=BATCH)  # guilty
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_weights_decayed_by_each(strategy, record):
    """Decay added to the gradients of every replica."""
    model, optimizer = prepare(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = keras.losses.mean_squared_error(y, model(x, training=True))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        variables = model.trainable_variables
        gradients = [g + 0.1 * v for g, v in zip(tape.gradient(loss, variables), variables, strict=True)]  # guilty
        optimizer.apply_gradients(zip(gradients, variables))
        return loss

    loop(strategy, record, replica_step, model)


# ---- right ----


def train_right(strategy, record):
    model, optimizer = prepare(strategy, keras.optimizers.Adam)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = keras.losses.mean_squared_error(y, model(x, training=True))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_right_aggregation_skipped(strategy, record):
    """Summed once by hand, clipped, and applied without another sum."""
    model, optimizer = prepare(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = keras.losses.mean_squared_error(y, model(x, training=True))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        gradients = tf.distribute.get_replica_context().all_reduce(SUM, tape.gradient(loss, model.trainable_variables))
        gradients, _ = tf.clip_by_global_norm(gradients, 0.3)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables), skip_gradients_aggregation=True)
        return loss

    loop(strategy, record, replica_step, model)


def train_right_clipped_by_optimizer(strategy, record):
    """tf_keras clips what it has summed."""
    model, optimizer = prepare(strategy, lambda rate: keras.optimizers.SGD(rate, global_clipnorm=0.3))

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = keras.losses.mean_squared_error(y, model(x, training=True))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_right_regularized(strategy, record):
    model, optimizer = prepare(strategy, kernel_regularizer=keras.regularizers.L1(0.02))

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            losses = keras.losses.mean_squared_error(y, model(x, training=True))
            penalty = sum(model.losses) / strategy.num_replicas_in_sync
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH) + penalty
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)
