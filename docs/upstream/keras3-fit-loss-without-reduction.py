"""With a loss of reduction="none" Keras 3 fit and evaluate report R times the loss."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(loss=keras.losses.MeanSquaredError(reduction="none"))
loss = model.evaluate(tf.constant([[1.0], [2.0], [3.0], [4.0]]), tf.zeros([4, 1]), batch_size=4, verbose=0)
print("as it should be:" if loss == 7.5 else "wrong:", "loss", loss, "right: 7.5")
