"""Keras 3 optimizers clip each replica's gradient and then sum, so that the step is longer than the limit."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    weights = keras.Variable([0.0, 0.0])
    optimizer = keras.optimizers.SGD(1.0, clipnorm=1.0)
    optimizer.build([weights])


@tf.function
def step():
    strategy.run(lambda: optimizer.apply_gradients([(tf.constant([3.0, 4.0]), weights)]))


step()
length = float(tf.norm(weights.value))
print("as it should be:" if abs(length - 1.0) < 1e-3 else "wrong:", "a step of length", length, "right: 1.0")
