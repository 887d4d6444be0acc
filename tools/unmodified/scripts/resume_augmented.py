"""Keras 3's fit with BackupAndRestore, of data that is augmented at random in its pipeline."""

import tensorflow as tf
from _data import load_data

strategy = tf.distribute.MirroredStrategy()


def augment(image, label):
    return image + 0.1 * tf.random.normal(tf.shape(image)), label


dataset = tf.data.Dataset.from_tensor_slices(load_data(96)).map(augment).batch(8 * strategy.num_replicas_in_sync)
with strategy.scope():
    model = tf.keras.Sequential(
        [tf.keras.Input((8, 8, 1)), tf.keras.layers.Flatten(), tf.keras.layers.Dense(16, "tanh")]
    )
    model.add(tf.keras.layers.Dense(10))
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(dataset, epochs=3, callbacks=[tf.keras.callbacks.BackupAndRestore("backup")], verbose=2)
