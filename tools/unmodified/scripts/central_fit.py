"""Keras 3 under CentralStorageStrategy, with data in a tf.data pipeline."""

import tensorflow as tf
from _data import load_data

strategy = tf.distribute.experimental.CentralStorageStrategy()
GLOBAL_BATCH = 8 * strategy.num_replicas_in_sync
dataset = tf.data.Dataset.from_tensor_slices(load_data(96)).shuffle(96, seed=5).batch(GLOBAL_BATCH)
with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.layers.Flatten(), tf.keras.layers.Dense(16, "tanh"), tf.keras.layers.Dense(10)]
    )
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.001 * strategy.num_replicas_in_sync),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
model.fit(dataset, epochs=2, verbose=2)
