"""`assert_cardinality` says how many batches the data have: no step is counted at their end."""

import numpy as np
import tensorflow as tf
import tf_keras as keras

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

with strategy.scope():
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.1), "mse")
x = np.ones((8, 1), np.float32)
data = (
    tf.data.Dataset.from_tensor_slices((x, x))
    .filter(lambda x, y: True)
    .batch(2)
    .apply(tf.data.experimental.assert_cardinality(4))
)
model.fit(data, epochs=5, verbose=0)
counted = int(model.optimizer.iterations.numpy())
print("as it should be:" if counted == 20 else "wrong:", f"{counted} steps counted after 5 epochs of 4 batches")
print("right: 20")
