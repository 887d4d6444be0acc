"""Keras 3 Dropout drops the same units on every replica."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    dropout = keras.layers.Dropout(0.5)
    dropout.build((None, 64))


@tf.function
def step():
    return strategy.run(lambda: dropout(tf.ones([1, 64]), training=True))


first, second = strategy.experimental_local_results(step())
same = bool(tf.reduce_all(first == second))
print("wrong:" if same else "as it should be:", "same mask on both replicas,", same, "right: False")
