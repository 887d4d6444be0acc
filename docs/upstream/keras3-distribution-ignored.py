"""A distribution that is set with the TensorFlow backend is accepted and ignored: training runs on one device."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
devices = keras.distribution.DeviceMesh((2,), ["batch"], ["cpu:0", "cpu:1"])
keras.distribution.set_distribution(keras.distribution.DataParallel(device_mesh=devices))
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
model.compile(optimizer="sgd", loss="mse")
model.fit(np.ones([8, 4]), np.ones([8, 2]), batch_size=4, verbose=0)
kernel = model.weights[0].value
there = tf.experimental.dtensor.unpack(kernel.handle) if tf.experimental.dtensor.is_dtensor(kernel) else [kernel]
print("as it should be:" if len(there) == 2 else "wrong:", f"the kernel stands on {len(there)} of 2 devices")
