"""Keras 3's fit with BackupAndRestore."""

import tensorflow as tf
from _data import load_data

strategy = tf.distribute.MirroredStrategy()
GLOBAL_BATCH = 8 * strategy.num_replicas_in_sync
dataset = tf.data.Dataset.from_tensor_slices(load_data(96)).batch(GLOBAL_BATCH)
with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 1)),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(16, "tanh"),
            tf.keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.01),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
callbacks = [tf.keras.callbacks.BackupAndRestore("backup")]
model.fit(dataset, epochs=3, callbacks=callbacks, verbose=2)
