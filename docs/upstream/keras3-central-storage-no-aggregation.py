"""A metric of Keras before 3.7 cannot be updated under CentralStorageStrategy."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    mean = keras.metrics.Mean()
value = tf.constant([4.0])
tf.function(lambda: strategy.run(lambda: mean.update_state(value)))()
