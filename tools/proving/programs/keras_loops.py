"""Loops of Keras models, which the programs beside it train."""

import numpy as np
import tensorflow as tf
from plain_loops import BATCH, RATE, SUM


def keras_loop(strategy, record, build, x, y, optimizer, *, prepare=lambda gradients: gradients):
    """Cross entropy, divided by the global batch."""
    import keras

    keras.utils.set_random_seed(1)
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH))
    with strategy.scope():
        model, update = build(keras), optimizer(keras)

    def replica_step(inputs, labels):
        with tf.GradientTape() as tape:
            logits = tf.cast(model(inputs, training=False), tf.float32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        gradients = prepare(tape.gradient(loss, model.trainable_variables))
        update.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @tf.function
    def train_step(inputs, labels):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(inputs, labels)), axis=None)

    for inputs, labels in dataset:
        record.step(loss=train_step(inputs, labels), variables=model.trainable_variables)


def tf_keras_loop(strategy, record, optimizer):
    import tf_keras

    x, y = rows()
    tf_keras.utils.set_random_seed(1)
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH))
    with strategy.scope():
        layers = [tf_keras.layers.Dense(4, activation="tanh", input_shape=(5,)), tf_keras.layers.Dense(3)]
        model, update = tf_keras.Sequential(layers), optimizer(tf_keras)

    def replica_step(inputs, labels):
        with tf.GradientTape() as tape:
            losses = tf_keras.losses.sparse_categorical_crossentropy(labels, model(inputs), from_logits=True)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        update.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    @tf.function
    def train_step(inputs, labels):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(inputs, labels)), axis=None)

    for inputs, labels in dataset:
        record.step(loss=train_step(inputs, labels), variables=model.trainable_variables)


def images(size):
    random = np.random.default_rng(0)
    return random.normal(size=(BATCH, size, size, 3)).astype("float32"), random.integers(0, 10, BATCH).astype("int32")


def tokens():
    random = np.random.default_rng(0)
    return random.integers(0, 20, size=(BATCH, 6)).astype("int32"), random.integers(0, 4, BATCH).astype("int32")


def rows():
    random = np.random.default_rng(0)
    return random.normal(size=(2 * BATCH, 5)).astype("float32"), random.integers(0, 3, 2 * BATCH).astype("int32")


def sgd(keras, **options):
    return keras.optimizers.SGD(RATE, **options)


def dense(keras):
    return keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(3)])


def transformer(keras):
    inputs = keras.Input((6,), dtype="int32")
    x = keras.layers.Embedding(20, 8)(inputs)
    attended = keras.layers.MultiHeadAttention(2, 4)(x, x)
    x = keras.layers.LayerNormalization()(x + attended)
    inner = keras.layers.Dense(8)(keras.layers.Dense(16, activation="gelu")(x))
    x = keras.layers.LayerNormalization()(x + inner)
    return keras.Model(inputs, keras.layers.Dense(4)(keras.layers.GlobalAveragePooling1D()(x)))
