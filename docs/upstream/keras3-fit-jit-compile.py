"""Keras 3 `fit` with `jit_compile=True` raises with several replicas."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=True)
try:
    model.fit(tf.data.Dataset.from_tensor_slices((tf.ones([8, 1]), tf.ones([8, 1]))).batch(4), verbose=0)
except tf.errors.InvalidArgumentError as error:
    print("wrong:", next(line for line in str(error).splitlines() if "Trying to access resource" in line))
