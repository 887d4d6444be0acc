"""Gradients through layers of Keras 3: normalisation, embedding, recurrence, convolution, attention; custom loops."""

import keras
import numpy as np
import tensorflow as tf

BATCH, STEPS = 8, 2
SUM = tf.distribute.ReduceOp.SUM


def context():
    return tf.distribute.get_replica_context()


def uniform(seed):
    return keras.initializers.GlorotUniform(seed=seed)


def pictures():
    random = np.random.default_rng(0)
    x = random.normal(size=(BATCH * STEPS, 6, 6, 1)).astype("float32")
    return x, random.integers(0, 3, size=BATCH * STEPS).astype("int32")


def words():
    random = np.random.default_rng(1)
    x = random.integers(0, 12, size=(BATCH * STEPS, 5)).astype("int32")
    return x, random.integers(0, 3, size=BATCH * STEPS).astype("int32")


def train(strategy, record, build, data, loss_of, optimizer=None):
    with strategy.scope():
        model = build()
        optimizer = keras.optimizers.SGD(0.1) if optimizer is None else optimizer()
        optimizer.build(model.trainable_variables)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(model, x, y)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    @tf.function
    def train_step(batch):
        return strategy.reduce(SUM, strategy.run(replica_step, args=batch), axis=None)

    batches = tf.data.Dataset.from_tensor_slices(data).batch(BATCH)
    for batch in strategy.experimental_distribute_dataset(batches):
        record.step(loss=train_step(batch), variables=model.variables)


def average(losses):
    return tf.nn.compute_average_loss(losses, global_batch_size=BATCH)


def cross_entropy(model, x, y):
    return average(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=model(x, training=True)))


# ---- wrong ----


def train_batch_normalization(strategy, record):
    """The layer normalises what its replica has."""

    def build():
        inputs = keras.Input((6, 6, 1))
        x = keras.layers.Conv2D(3, 3, kernel_initializer=uniform(1))(inputs)
        x = keras.layers.BatchNormalization(momentum=0.5)(x)  # guilty
        x = keras.layers.GlobalAveragePooling2D()(keras.layers.ReLU()(x))
        return keras.Model(inputs, keras.layers.Dense(3, kernel_initializer=uniform(2))(x))

    def loss_of(model, x, y):
        logits = model(x, training=True)  # guilty
        return average(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))

    train(strategy, record, build, pictures(), loss_of)


def train_embedding_unscaled(strategy, record):
    """Sparse gradients of a mean per replica."""

    def build():
        layers = [keras.layers.Embedding(12, 4, embeddings_initializer=uniform(1)), keras.layers.Flatten()]
        return keras.Sequential([keras.Input((5,)), *layers, keras.layers.Dense(3, kernel_initializer=uniform(2))])

    def loss_of(model, x, y):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=model(x, training=True))
        return tf.reduce_mean(losses)  # guilty

    train(strategy, record, build, words(), loss_of)


def train_recurrent_regularized(strategy, record):
    """The recurrent kernel's penalty is counted by every replica."""

    def build():
        regularizer = keras.regularizers.L2(0.1)
        options = {"kernel_initializer": uniform(2), "recurrent_initializer": uniform(3)}
        gru = keras.layers.GRU(4, recurrent_regularizer=regularizer, **options)
        embedding = keras.layers.Embedding(12, 4, embeddings_initializer=uniform(1))
        return keras.Sequential(
            [keras.Input((5,)), embedding, gru, keras.layers.Dense(3, kernel_initializer=uniform(4))]
        )

    def loss_of(model, x, y):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=model(x, training=True))
        return average(losses) + sum(model.losses)  # guilty

    train(strategy, record, build, words(), loss_of)


def train_convolution_clipped(strategy, record):
    """The optimizer of Keras 3 clips before it sums."""

    def build():
        layers = [keras.layers.Conv2D(3, 3, kernel_initializer=uniform(1), activation="relu"), keras.layers.Flatten()]
        return keras.Sequential([keras.Input((6, 6, 1)), *layers, keras.layers.Dense(3, kernel_initializer=uniform(2))])

    with strategy.scope():
        model = build()
        optimizer = keras.optimizers.SGD(0.1, global_clipnorm=0.3)  # guilty
        optimizer.build(model.trainable_variables)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = cross_entropy(model, x, y)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))  # guilty
        return loss

    @tf.function
    def train_step(batch):
        return strategy.reduce(SUM, strategy.run(replica_step, args=batch), axis=None)

    batches = tf.data.Dataset.from_tensor_slices(pictures()).batch(BATCH)
    for batch in strategy.experimental_distribute_dataset(batches):
        record.step(loss=train_step(batch), variables=model.variables)


def train_layer_norm_over_batch(strategy, record):
    """Normalised over the wrong axis: the examples instead of the features."""

    def build():
        inputs = keras.Input((6, 6, 1))
        x = keras.layers.Dense(4, kernel_initializer=uniform(1))(keras.layers.Flatten()(inputs))
        return keras.Model(inputs, x)

    def loss_of(model, x, y):
        hidden = model(x, training=True)
        mean, variance = tf.nn.moments(hidden, axes=[0], keepdims=True)  # guilty
        hidden = (hidden - mean) * tf.math.rsqrt(variance + 1e-3)
        return average(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=hidden))

    train(strategy, record, build, pictures(), loss_of)


def train_attention_over_batch(strategy, record):
    """Examples attend to each other, those of the replica only."""

    def build():
        inputs = keras.Input((5,))
        x = keras.layers.Embedding(12, 4, embeddings_initializer=uniform(1))(inputs)
        x = keras.layers.Dense(3, kernel_initializer=uniform(2))(keras.layers.GlobalAveragePooling1D()(x))
        return keras.Model(inputs, x)

    def loss_of(model, x, y):
        hidden = model(x, training=True)
        scores = tf.matmul(hidden, hidden, transpose_b=True)  # guilty
        logits = hidden + tf.nn.softmax(scores) @ hidden  # guilty
        return average(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))

    train(strategy, record, build, words(), loss_of)


# ---- right ----


def train_right_synchronized_normalization(strategy, record):
    def build():
        inputs = keras.Input((6, 6, 1))
        x = keras.layers.Conv2D(3, 3, kernel_initializer=uniform(1))(inputs)
        x = keras.layers.BatchNormalization(momentum=0.5, synchronized=True)(x)
        x = keras.layers.GlobalAveragePooling2D()(keras.layers.ReLU()(x))
        return keras.Model(inputs, keras.layers.Dense(3, kernel_initializer=uniform(2))(x))

    train(strategy, record, build, pictures(), cross_entropy)


def train_right_layer_normalization(strategy, record):
    def build():
        inputs = keras.Input((6, 6, 1))
        x = keras.layers.Conv2D(3, 3, kernel_initializer=uniform(1))(inputs)
        x = keras.layers.LayerNormalization(axis=[1, 2, 3])(x)
        x = keras.layers.GlobalAveragePooling2D()(keras.layers.ReLU()(x))
        return keras.Model(inputs, keras.layers.Dense(3, kernel_initializer=uniform(2))(x))

    train(strategy, record, build, pictures(), cross_entropy)


def train_right_embedding(strategy, record):
    """Sparse gradients, of words that several replicas have."""

    def build():
        layers = [keras.layers.Embedding(12, 4, embeddings_initializer=uniform(1)), keras.layers.Flatten()]
        return keras.Sequential([keras.Input((5,)), *layers, keras.layers.Dense(3, kernel_initializer=uniform(2))])

    train(strategy, record, build, words(), cross_entropy, lambda: keras.optimizers.Adam(0.01))


def train_right_recurrent(strategy, record):
    def build():
        options = {"kernel_initializer": uniform(2), "recurrent_initializer": uniform(3)}
        embedding = keras.layers.Embedding(12, 4, embeddings_initializer=uniform(1))
        lstm = keras.layers.LSTM(4, **options)
        return keras.Sequential(
            [keras.Input((5,)), embedding, lstm, keras.layers.Dense(3, kernel_initializer=uniform(4))]
        )

    train(strategy, record, build, words(), cross_entropy)


def train_right_attention(strategy, record):
    """Words of a sentence attend to each other."""

    def build():
        inputs = keras.Input((5,))
        x = keras.layers.Embedding(12, 4, embeddings_initializer=uniform(1))(inputs)
        attention = keras.layers.MultiHeadAttention(2, 3, kernel_initializer=uniform(5))
        x = keras.layers.GlobalAveragePooling1D()(x + attention(x, x))
        return keras.Model(inputs, keras.layers.Dense(3, kernel_initializer=uniform(2))(x))

    train(strategy, record, build, words(), cross_entropy)
