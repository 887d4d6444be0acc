"""`predict` with the rows as its only batch divides them among the replicas."""

import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
x = np.ones((8, 1), "float32")
rows = len(model.predict(x, batch_size=len(x), verbose=0))
print("as it should be:" if rows == 8 else "wrong:", rows, "predictions of 8 rows, right: 8")
