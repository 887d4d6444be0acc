"""A model with dropout, which no two numbers of replicas train alike."""

import tensorflow as tf
from _data import load_data

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 1)),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(16, "tanh"),
            tf.keras.layers.Dropout(0.3),
            tf.keras.layers.Dense(10),
        ]
    )
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(*load_data(96), batch_size=8 * strategy.num_replicas_in_sync, epochs=1, verbose=0)
