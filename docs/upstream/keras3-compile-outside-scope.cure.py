"""The same with compile in the scope."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(tf.ones([8, 1]), tf.ones([8, 1]), batch_size=4, epochs=2, verbose=0)
counted = int(model.optimizer.iterations.numpy())
print("as it should be:" if counted == 4 else "wrong:", "steps counted", counted, "right: 4")
