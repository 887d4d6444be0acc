"""`Model.fit` of tf_keras: losses with and without a reduction, layers, metrics and steps of one's own."""

import numpy as np
import tensorflow as tf
import tf_keras as keras

BATCH, STEPS = 8, 3


def data():
    random = np.random.default_rng(4)
    x = random.normal(size=(BATCH * STEPS, 4)).astype("float32")
    return x, (x[:, :1] - x[:, 1:2] ** 2).astype("float32")


def dense(units, seed, **options):
    return keras.layers.Dense(units, kernel_initializer=keras.initializers.GlorotUniform(seed=seed), **options)


def sequential(*between):
    first = [keras.layers.InputLayer((4,)), dense(6, 1, activation="elu")]
    return keras.Sequential([*first, *between, dense(1, 2)])


def fit(model, record):
    x, y = data()
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
    model.fit(dataset, verbose=0, callbacks=[record.keras_callback(model)])


# ---- wrong ----


def train_standardized_targets(strategy, record):
    """A loss on targets that are standardized by their batch."""

    def loss(y, output):
        y = (y - tf.reduce_mean(y)) / tf.math.reduce_std(y)  # guilty
        return tf.reduce_mean((output - y) ** 2, axis=-1)

    with strategy.scope():
        model = sequential()
        model.compile(optimizer=keras.optimizers.SGD(0.05), loss=loss)
    fit(model, record)


def train_worst_half(strategy, record):
    """Only what is above the median of the batch counts."""

    def loss(y, output):
        errors = tf.reduce_mean((output - y) ** 2, axis=-1)
        median = tf.sort(errors)[tf.shape(errors)[0] // 2]  # guilty
        return tf.where(errors >= median, errors, 0.0)

    with strategy.scope():
        model = sequential()
        model.compile(optimizer=keras.optimizers.SGD(0.05), loss=loss)
    fit(model, record)


def train_batch_normalization(strategy, record):
    """Each replica normalises with its own statistics."""
    with strategy.scope():
        model = sequential(keras.layers.BatchNormalization())  # guilty
        model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
    x, y = data()
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
    model.fit(dataset, verbose=0, callbacks=[record.keras_callback(model)])  # guilty


class Step(keras.Model):
    """The loss of `compile` is scaled by tf_keras; the penalty is not."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compiled_loss(y, self(x, training=True))
            penalty = 0.05 * tf.add_n([tf.nn.l2_loss(v) for v in self.trainable_variables])
            total = loss + penalty  # guilty: train_step_penalty
        self.optimizer.minimize(total, self.trainable_variables, tape=tape)
        return {metric.name: metric.result() for metric in self.metrics}


def train_step_penalty(strategy, record):
    with strategy.scope():
        inputs = keras.Input((4,))
        model = Step(inputs, dense(1, 2)(dense(6, 1, activation="elu")(inputs)))
        model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
    fit(model, record)


class MeanStep(keras.Model):
    """A mean over the replica's examples; `minimize` sums."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))  # guilty: train_step_mean
        self.optimizer.minimize(loss, self.trainable_variables, tape=tape)
        self.show.update_state(loss)
        return {"loss": self.show.result()}


def train_step_mean(strategy, record):
    with strategy.scope():
        inputs = keras.Input((4,))
        model = MeanStep(inputs, dense(1, 2)(dense(6, 1, activation="elu")(inputs)))
        model.show = keras.metrics.Mean("loss")
        model.compile(optimizer=keras.optimizers.SGD(0.05))
    fit(model, record)


class Gate(keras.layers.Layer):
    """Lets a batch through only if its mean is large enough."""

    def call(self, x):
        return tf.cond(tf.reduce_mean(x) > 0.12, lambda: x, lambda: 0.5 * x)  # guilty: train_layer_gates


def train_layer_gates(strategy, record):
    with strategy.scope():
        model = sequential(Gate())
        model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
    fit(model, record)


# ---- right ----


def train_right(strategy, record):
    with strategy.scope():
        model = sequential()
        model.compile(optimizer=keras.optimizers.Adam(0.01, clipnorm=0.1), loss="mse", metrics=["mae"])
    fit(model, record)


def train_right_loss_object(strategy, record):
    """A subclass of Loss, whose reduction tf_keras chooses."""

    class Quartic(keras.losses.Loss):
        def call(self, y, output):
            return tf.reduce_mean((output - y) ** 4, axis=-1)

    with strategy.scope():
        model = sequential()
        model.compile(optimizer=keras.optimizers.SGD(0.001), loss=Quartic())
    fit(model, record)


def train_right_synchronized_normalization(strategy, record):
    with strategy.scope():
        model = sequential(keras.layers.BatchNormalization(synchronized=True))
        model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
    fit(model, record)


class RightStep(keras.Model):
    """The penalty is divided by the number of replicas."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compiled_loss(y, self(x, training=True))
            penalty = 0.05 * tf.add_n([tf.nn.l2_loss(v) for v in self.trainable_variables])
            total = loss + tf.nn.scale_regularization_loss(penalty)
        self.optimizer.minimize(total, self.trainable_variables, tape=tape)
        return {metric.name: metric.result() for metric in self.metrics}


def train_right_step_penalty(strategy, record):
    with strategy.scope():
        inputs = keras.Input((4,))
        model = RightStep(inputs, dense(1, 2)(dense(6, 1, activation="elu")(inputs)))
        model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
    fit(model, record)
