"""A Keras 3 metric under CentralStorageStrategy counts earlier batches R times."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    mean = keras.metrics.Mean()


@tf.function
def step(value):
    strategy.run(lambda: mean.update_state(value))


for value in (0.0, 0.0, 4.0):
    step(tf.constant(value))
found = float(mean.result())
print("as it should be:" if abs(found - 4.0 / 3) < 1e-3 else "wrong:", found, "right:", 4.0 / 3)
