"""MirroredStrategy, which Keras 3 knows with this backend, has a copy of each variable on each device."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile(optimizer="sgd", loss="mse")
model.fit(np.ones([8, 4]), np.ones([8, 2]), batch_size=4, verbose=0)
kernel = model.weights[0].value
there = {copy.device for copy in getattr(kernel, "values", [kernel])}
print("as it should be:" if len(there) == 2 else "wrong:", f"the kernel stands on {len(there)} of 2 devices")
