"""Metrics of Keras 3.7 to 3.9 count earlier batches once for each replica under MirroredStrategy."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    mean = keras.metrics.Mean()


@tf.function
def step(value):
    strategy.run(lambda: mean.update_state(value))


for value in (4.0, 1.0):
    step(tf.constant(value))
result = float(mean.result())
print("right: the mean of 4 and 1 is 2.5" if result == 2.5 else f"wrong: the mean of 4 and 1 is {result} right: 2.5")
