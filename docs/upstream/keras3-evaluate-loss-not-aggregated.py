"""The loss that `evaluate` of Keras before 3.7 reports under MirroredStrategy is the first replica's."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(loss="mse")
inputs = tf.constant([[0.0], [2.0]])
data = tf.data.Dataset.from_tensor_slices((inputs, tf.zeros((2, 1)))).batch(2)
loss = model.evaluate(data, verbose=0)
print("right: 2.0" if loss == 2.0 else f"wrong: {loss} right: 2.0")
