"""Keras 3 `fit` raises when replicas do not divide the first batch."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
try:
    model.fit(tf.data.Dataset.from_tensor_slices((tf.ones([3, 1]), tf.ones([3, 1]))).batch(3), verbose=0)
except tf.errors.InvalidArgumentError as error:
    print("wrong:", error.message.partition("}} ")[2][:90])
