"""tf_keras' fit on two workers with BackupAndRestore, as in TensorFlow's tutorial on several workers."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"
import tensorflow as tf
import tf_keras as keras
from _data import load_data

strategy = tf.distribute.MultiWorkerMirroredStrategy()
GLOBAL_BATCH = 8 * strategy.num_replicas_in_sync
dataset = tf.data.Dataset.from_tensor_slices(load_data(64)).batch(GLOBAL_BATCH)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
with strategy.scope():
    model = keras.Sequential(
        [keras.layers.Flatten(input_shape=(8, 8, 1)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(10)]
    )
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
callbacks = [keras.callbacks.BackupAndRestore("backup")]
model.fit(dataset.with_options(options), epochs=3, callbacks=callbacks, verbose=2)
