"""Custom loops with layers and optimizers of Keras 3."""

import keras
import numpy as np
import tensorflow as tf

BATCH, STEPS = 12, 3
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN


def dataset():
    random = np.random.default_rng(0)
    x = random.normal(size=(BATCH * STEPS, 6)).astype("float32")
    y = np.sin(x.sum(axis=1, keepdims=True)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)


def dense(units, seed, **options):
    return keras.layers.Dense(units, kernel_initializer=keras.initializers.GlorotUniform(seed=seed), **options)


def prepare(strategy, optimizer=None, **options):
    with strategy.scope():
        model = keras.Sequential([keras.Input((6,)), dense(5, 1, activation="tanh", **options), dense(1, 2)])
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9) if optimizer is None else optimizer()
        optimizer.build(model.trainable_variables)
    return model, optimizer


def loop(strategy, record, replica_step, model, metrics=None):
    @tf.function
    def train_step(batch):
        losses = strategy.run(replica_step, args=batch)
        return strategy.reduce(SUM, losses, axis=None)

    for batch in strategy.experimental_distribute_dataset(dataset()):
        loss = train_step(batch)
        record.step(loss=loss, variables=model.variables, metrics=metrics)


# ---- wrong ----


def train_loss_function(strategy, record):
    """The mean of what a loss function gives for the examples of a replica."""
    model, optimizer = prepare(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = keras.ops.mean(keras.losses.mean_squared_error(y, model(x, training=True)))  # guilty
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_loss_object_divided(strategy, record):
    """A loss object of Keras 3 has divided by the number of replicas."""
    model, optimizer = prepare(strategy)
    loss_object = keras.losses.MeanSquaredError()

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_object(y, model(x, training=True)) / strategy.num_replicas_in_sync  # guilty
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_replica_batch(strategy, record):
    """The sum is divided by the size of the replica's batch."""
    model, optimizer = prepare(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((model(x, training=True) - y) ** 2, axis=1)
            loss = tf.reduce_sum(per_example) / tf.cast(tf.shape(x)[0], tf.float32)  # guilty
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_layer_losses(strategy, record):
    """The losses of layers are added whole on every replica."""
    model, optimizer = prepare(strategy, kernel_regularizer=keras.regularizers.L2(0.05))

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((model(x, training=True) - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
            loss += tf.add_n(model.losses)  # guilty
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_reduced_before_optimizer(strategy, record):
    """The optimizer sums over replicas by itself."""
    model, optimizer = prepare(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((model(x, training=True) - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients = tf.distribute.get_replica_context().all_reduce(SUM, gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # guilty
        return loss

    loop(strategy, record, replica_step, model)


def train_averaged_by_hand(strategy, record):
    """Gradients are divided by the number of replicas, although the loss is a part already."""
    model, optimizer = prepare(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((model(x, training=True) - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients = [gradient / strategy.num_replicas_in_sync for gradient in gradients]  # guilty
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_learning_rate_times_replicas(strategy, record):
    """The linear scaling rule, although the global batch is what it was."""
    rate = 0.1 * strategy.num_replicas_in_sync  # guilty
    model, optimizer = prepare(strategy, lambda: keras.optimizers.SGD(rate))  # guilty

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((model(x, training=True) - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # guilty
        return loss

    loop(strategy, record, replica_step, model)


def train_activity_penalty(strategy, record):
    """A penalty on the mean activation of the batch, whose square is that of each replica."""
    model, optimizer = prepare(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            hidden = model.layers[0](x)
            per_example = tf.reduce_sum((model.layers[1](hidden) - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
            activity = tf.reduce_mean(hidden, axis=0)  # guilty
            loss += 0.5 * tf.reduce_sum(activity**2) / strategy.num_replicas_in_sync
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_gradient_noise(strategy, record):
    """Annealed noise is added to each part of the gradient, so that there are as many draws as replicas."""
    model, optimizer = prepare(strategy)
    steps = tf.Variable(0)

    def replica_step(x, y, step):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((model(x, training=True) - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        noise = [tf.random.stateless_normal(gradient.shape, seed=[7, step]) for gradient in gradients]
        gradients = [gradient + 0.05 * each for gradient, each in zip(gradients, noise, strict=True)]  # guilty
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @tf.function
    def train_step(batch):
        steps.assign_add(1)
        losses = strategy.run(replica_step, args=(*batch, steps.read_value()))
        return strategy.reduce(SUM, losses, axis=None)

    for batch in strategy.experimental_distribute_dataset(dataset()):
        record.step(loss=train_step(batch), variables=model.variables)


def train_metric_of_one_replica(strategy, record):
    """The training is right; the error that is shown is the first replica's."""
    model, optimizer = prepare(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            error = model(x, training=True) - y
            loss = tf.nn.compute_average_loss(tf.reduce_sum(error**2, axis=1), global_batch_size=BATCH)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss, tf.reduce_mean(tf.abs(error))

    @tf.function
    def train_step(batch):
        losses, errors = strategy.run(replica_step, args=batch)
        error = strategy.experimental_local_results(errors)[0]  # guilty
        return strategy.reduce(SUM, losses, axis=None), error

    for batch in strategy.experimental_distribute_dataset(dataset()):
        loss, error = train_step(batch)
        record.step(loss=loss, variables=model.variables, metrics={"mae": error})


def train_metric_summed(strategy, record):
    """Means of replicas are summed."""
    model, optimizer = prepare(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            error = model(x, training=True) - y
            loss = tf.nn.compute_average_loss(tf.reduce_sum(error**2, axis=1), global_batch_size=BATCH)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss, tf.reduce_mean(tf.abs(error))  # guilty

    @tf.function
    def train_step(batch):
        losses, errors = strategy.run(replica_step, args=batch)
        error = strategy.reduce(SUM, errors, axis=None)  # guilty
        return strategy.reduce(SUM, losses, axis=None), error

    for batch in strategy.experimental_distribute_dataset(dataset()):
        loss, error = train_step(batch)
        record.step(loss=loss, variables=model.variables, metrics={"mae": error})


# ---- right ----


def train_right(strategy, record):
    model, optimizer = prepare(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((model(x, training=True) - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_right_loss_object_averages(strategy, record):
    """A loss object of Keras 3 averages over the replica, and divides by the number of replicas."""
    model, optimizer = prepare(strategy)
    loss_object = keras.losses.MeanSquaredError()

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_object(y, model(x, training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_right_loss_object(strategy, record):
    model, optimizer = prepare(strategy, lambda: keras.optimizers.Adam(0.01))
    loss_object = keras.losses.MeanSquaredError(reduction="none")

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(loss_object(y, model(x, training=True))) / BATCH
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_right_layer_losses(strategy, record):
    model, optimizer = prepare(strategy, kernel_regularizer=keras.regularizers.L2(0.05))

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((model(x, training=True) - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
            loss += tf.nn.scale_regularization_loss(tf.add_n(model.losses))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_right_summed_losses(strategy, record):
    """A sum over the batch, and no division at all."""
    model, optimizer = prepare(strategy, lambda: keras.optimizers.SGD(0.01))

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((model(x, training=True) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    loop(strategy, record, replica_step, model)


def train_right_metric(strategy, record):
    """A metric of Keras, made in the scope and updated by the replicas."""
    model, optimizer = prepare(strategy)
    with strategy.scope():
        mae = keras.metrics.MeanAbsoluteError()

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            output = model(x, training=True)
            loss = tf.nn.compute_average_loss(tf.reduce_sum((output - y) ** 2, axis=1), global_batch_size=BATCH)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        mae.update_state(y, output)
        return loss

    loop(strategy, record, replica_step, model, metrics={"mae": mae})


def train_right_averaged_by_hand(strategy, record):
    """Means per replica, whose gradients are divided by the number of replicas before the optimizer sums them."""
    model, optimizer = prepare(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((model(x, training=True) - y) ** 2, axis=1)
            loss = tf.reduce_mean(per_example)
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients = [gradient / strategy.num_replicas_in_sync for gradient in gradients]
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss / strategy.num_replicas_in_sync

    loop(strategy, record, replica_step, model)
