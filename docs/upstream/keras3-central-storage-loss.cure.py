"""MirroredStrategy trains alike, and the loss that Keras 3 `fit` reports is right under it."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.0), lambda target, output: output[:, 0])
values = tf.constant([[0.0], [0.0], [0.0], [0.0], [4.0], [4.0]])
history = model.fit(tf.data.Dataset.from_tensor_slices((values, values)).batch(2), verbose=0)
loss = history.history["loss"][0]
print("as it should be:" if abs(loss - 4.0 / 3) < 1e-3 else "wrong:", loss, "right:", 4.0 / 3)
