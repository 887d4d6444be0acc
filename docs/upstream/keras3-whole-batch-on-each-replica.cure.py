"""`evaluate`, and likewise `fit`, with the rows as the only batch divides them among the replicas."""

import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    inputs = keras.Input((1,))
    model = keras.Model(inputs, keras.layers.Identity()(inputs))
    model.compile(loss="mse", metrics=[keras.metrics.TruePositives()])
x, y = np.ones((8, 1), "float32"), np.ones((8, 1), "float32")
model.evaluate(x, y, batch_size=len(x), verbose=0)
count = float(model.get_metrics_result()["true_positives"])
print("as it should be:" if count == 8 else "wrong:", count, "true positives of 8 rows, right: 8.0")
