"""Keras 2, with several steps in each execution, checkpoints and a backup."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"
import tensorflow as tf
import tf_keras as keras
from _data import load_data

strategy = tf.distribute.MirroredStrategy()
GLOBAL_BATCH = 8 * strategy.num_replicas_in_sync
dataset = tf.data.Dataset.from_tensor_slices(load_data(96)).shuffle(96, seed=3).batch(GLOBAL_BATCH, drop_remainder=True)
with strategy.scope():
    model = keras.Sequential(
        [keras.layers.Flatten(input_shape=(8, 8, 1)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(10)]
    )
    model.compile(
        keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=3,
    )
model.fit(dataset, epochs=2, verbose=2, callbacks=[keras.callbacks.BackupAndRestore("backup")])
model.save("model_dir")
