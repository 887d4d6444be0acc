"""`Model.fit` of Keras 3, which scales the loss it knows of, with losses, layers and steps of one's own."""

import keras
import numpy as np
import tensorflow as tf

BATCH, STEPS = 8, 3


def data():
    random = np.random.default_rng(0)
    x = random.normal(size=(BATCH * STEPS, 4)).astype("float32")
    return x, np.tanh(x.sum(axis=1, keepdims=True)).astype("float32")


def dense(units, seed, **options):
    return keras.layers.Dense(units, kernel_initializer=keras.initializers.GlorotUniform(seed=seed), **options)


def layers(**options):
    return [keras.Input((4,)), dense(5, 1, activation="tanh", **options), dense(1, 2)]


def replicas():
    return tf.distribute.get_strategy().num_replicas_in_sync


def fit(model, record):
    x, y = data()
    callback = record.keras_callback(model)
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[callback])


# ---- wrong ----


def train_loss_relative_to_batch(strategy, record):
    """A loss that is divided by the variance of the targets of the batch."""

    def normalised(y, output):
        return tf.reduce_mean((output - y) ** 2, axis=-1) / tf.math.reduce_variance(y)  # guilty

    with strategy.scope():
        model = keras.Sequential(layers())
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss=normalised)
    fit(model, record)


def train_mean_loss_with_average(strategy, record):
    """A loss that is a mean of the replica's examples, under an optimizer that averages the weights it has changed."""

    def quantile(y, output):
        return tf.reduce_mean(tf.maximum(0.7 * (y - output), -0.3 * (y - output)))  # guilty

    with strategy.scope():
        model = keras.Sequential(layers())
        model.compile(optimizer=keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.8), loss=quantile)
    fit(model, record)


def train_loss_divided_again(strategy, record):
    """Keras divides by the number of replicas; so does this loss."""

    def divided(y, output):
        return tf.reduce_mean((output - y) ** 2, axis=-1) / replicas()  # guilty

    with strategy.scope():
        model = keras.Sequential(layers())
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss=divided)
    fit(model, record)


def train_correlation_loss(strategy, record):
    """One minus the correlation of outputs and targets, which is that of a replica's batch."""

    def correlation(y, output):
        y = y - tf.reduce_mean(y)  # guilty
        output = output - tf.reduce_mean(output)  # guilty
        norm = tf.norm(y) * tf.norm(output) + 1e-3
        return tf.ones_like(y[:, 0]) * (1.0 - tf.reduce_sum(y * output) / norm)

    with strategy.scope():
        model = keras.Sequential(layers())
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss=correlation)
    fit(model, record)


class Standardize(keras.layers.Layer):
    """Brings each feature to zero mean and unit deviation over the batch it sees."""

    def call(self, x):
        mean, variance = tf.nn.moments(x, axes=[0])  # guilty: train_layer_standardizes
        return (x - mean) / tf.sqrt(variance + 1e-3)


def train_layer_standardizes(strategy, record):
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), Standardize(), dense(1, 2)])
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    fit(model, record)


class SparseActivity(keras.layers.Layer):
    """Keeps the mean activity over the batch near a target."""

    def call(self, x):
        activity = tf.reduce_mean(x, axis=0)  # guilty: train_layer_adds_loss
        self.add_loss(2.0 * tf.reduce_sum((activity - 0.2) ** 2))
        return x


def train_layer_adds_loss(strategy, record):
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), dense(5, 1, activation="tanh"), SparseActivity(), dense(1, 2)])
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    fit(model, record)


class UnscaledStep(keras.Model):
    """A step of one's own: a mean over the replica's examples, and an optimizer that sums."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x, training=True) - y) ** 2)  # guilty: train_step_unscaled
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        self.show.update_state(loss)
        return {"loss": self.show.result()}


def train_step_unscaled(strategy, record):
    with strategy.scope():
        inputs = keras.Input((4,))
        model = UnscaledStep(inputs, dense(1, 2)(dense(5, 1, activation="tanh")(inputs)))
        model.show = keras.metrics.Mean("loss")
        model.compile(optimizer=keras.optimizers.SGD(0.1))
    fit(model, record)


class UnscaledLosses(keras.Model):
    """A step that scales its loss, and not what the layers add to it."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            errors = tf.reduce_sum((self(x, training=True) - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(errors, global_batch_size=BATCH)
            loss += tf.add_n(self.losses)  # guilty: train_step_regularized
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        self.show.update_state(errors)
        return {"loss": self.show.result()}


def train_step_regularized(strategy, record):
    with strategy.scope():
        inputs = keras.Input((4,))
        hidden = dense(5, 1, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.05))(inputs)
        model = UnscaledLosses(inputs, dense(1, 2)(hidden))
        model.show = keras.metrics.Mean("loss")
        model.compile(optimizer=keras.optimizers.SGD(0.1))
    fit(model, record)


class ClippedStep(keras.Model):
    """A step that clips before the optimizer has summed."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            errors = tf.reduce_sum((self(x, training=True) - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(errors, global_batch_size=BATCH)
        gradients = tape.gradient(loss, self.trainable_variables)
        gradients = [tf.clip_by_norm(gradient, 0.05) for gradient in gradients]  # guilty: train_step_clipped
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        self.show.update_state(errors)
        return {"loss": self.show.result()}


def train_step_clipped(strategy, record):
    with strategy.scope():
        inputs = keras.Input((4,))
        model = ClippedStep(inputs, dense(1, 2)(dense(5, 1, activation="tanh")(inputs)))
        model.show = keras.metrics.Mean("loss")
        model.compile(optimizer=keras.optimizers.SGD(0.1))
    fit(model, record)


def train_optimizer_clips(strategy, record):
    """Keras 3 clips each replica's gradient, before it sums them."""
    with strategy.scope():
        model = keras.Sequential(layers())
        model.compile(optimizer=keras.optimizers.SGD(0.1, clipnorm=0.02), loss="mse")  # guilty
    x, y = data()
    callback = record.keras_callback(model)
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[callback])  # guilty


class LocalR2(keras.metrics.Metric):
    """The share of variance that is explained, batch by batch, averaged."""

    def __init__(self, **options):
        super().__init__(**options)
        self.total = self.add_weight(name="total", initializer="zeros")
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, y, output, sample_weight=None):
        spread = tf.reduce_mean((y - tf.reduce_mean(y)) ** 2)  # guilty: train_metric_of_batch
        self.total.assign_add(1.0 - tf.reduce_mean((y - output) ** 2) / spread)
        self.count.assign_add(1.0)

    def result(self):
        return self.total / self.count


def train_metric_of_batch(strategy, record):
    with strategy.scope():
        model = keras.Sequential(layers())
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse", metrics=[LocalR2(name="r2")])
    fit(model, record)


class Unbuilt(keras.Model):
    """A step of its own, in which the optimizer makes its slots."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x, training=True) - y) ** 2)  # guilty: train_step_builds_optimizer
        self.optimizer.apply_gradients(
            zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables, strict=True)
        )
        return {"loss": loss}


def train_step_builds_optimizer(strategy, record):
    """A mean of each replica's examples, where nothing but the first step makes the optimizer's slots."""
    with strategy.scope():
        inputs = keras.Input((4,))
        model = Unbuilt(inputs, dense(1, 2)(dense(5, 1, activation="tanh")(inputs)))
        model.compile(optimizer=keras.optimizers.Adagrad(0.1))
    x, y = data()
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)


# ---- right ----


def train_right(strategy, record):
    with strategy.scope():
        model = keras.Sequential(layers())
        model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", metrics=["mae"])
    fit(model, record)


def train_right_regularized(strategy, record):
    """`fit` scales what layers add."""
    with strategy.scope():
        model = keras.Sequential(layers(kernel_regularizer=keras.regularizers.L2(0.05)))
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    x, y = data()
    record_only_variables = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: record.step(variables=[*model.variables, *model.optimizer.variables])
    )
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[record_only_variables])


def train_right_custom_loss(strategy, record):
    """A value for each example, as Keras wants it."""

    def huber(y, output):
        error = tf.abs(output - y)
        return tf.reduce_mean(tf.where(error < 0.3, 0.5 * error**2, 0.3 * (error - 0.15)), axis=-1)

    with strategy.scope():
        model = keras.Sequential(layers())
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss=huber)
    fit(model, record)


class RowNorm(keras.layers.Layer):
    """Brings each example to zero mean and unit deviation over its features."""

    def call(self, x):
        mean, variance = tf.nn.moments(x, axes=[1], keepdims=True)
        return (x - mean) / tf.sqrt(variance + 1e-3)


def train_right_layer(strategy, record):
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), RowNorm(), dense(1, 2)])
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    fit(model, record)


class ScaledStep(keras.Model):
    """A step of one's own that does as Keras does."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            errors = tf.reduce_sum((self(x, training=True) - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(errors, global_batch_size=BATCH)
        gradients = tape.gradient(loss, self.trainable_variables)
        gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        gradients = [tf.clip_by_norm(gradient, 0.05) / replicas() for gradient in gradients]
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        self.show.update_state(errors)
        return {"loss": self.show.result()}


def train_right_step(strategy, record):
    """Clipped after a sum, and divided by the replicas since the optimizer sums once more."""
    with strategy.scope():
        inputs = keras.Input((4,))
        model = ScaledStep(inputs, dense(1, 2)(dense(5, 1, activation="tanh")(inputs)))
        model.show = keras.metrics.Mean("loss")
        model.compile(optimizer=keras.optimizers.SGD(0.1))
    fit(model, record)
