"""Keras TCN: a temporal convolutional network for sequences, by `fit` and by a loop of its own."""

# /// script
# dependencies = []
# [tool.lockstep]
# without-their-own = ["keras-tcn==3.5.7"]
# cases = ["fit mirrored-2", "loop multi_worker-2"]
# ///

import keras
import numpy as np
import tensorflow as tf
from tcn import TCN

rng = np.random.default_rng(0)
X = rng.normal(size=(64, 12, 2)).astype("float32")
Y = X[:, :, 0].cumsum(axis=1)[:, -1:]


def network():
    sequence = keras.Input((12, 2))
    hidden = TCN(nb_filters=4, kernel_size=2, dilations=(1, 2, 4), use_layer_norm=True)(sequence)
    return keras.Model(sequence, keras.layers.Dense(1)(hidden))


def fit(strategy, record):
    with strategy.scope():
        model = network()
        model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mae", jit_compile=False)
    model.fit(X, Y, batch_size=16, shuffle=False, verbose=0, callbacks=[record.keras_callback(model)])


def loop(strategy, record):
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(16)
    with strategy.scope():
        model, optimizer = network(), keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(tf.abs(model(x, training=True) - y)[:, 0], global_batch_size=16)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    @tf.function
    def step(batch):
        return strategy.run(replica_step, args=batch)

    for batch in strategy.experimental_distribute_dataset(data):
        record.step(loss=step(batch), variables=[*model.variables, *optimizer.variables])
