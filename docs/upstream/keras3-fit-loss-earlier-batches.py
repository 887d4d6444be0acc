"""Under MirroredStrategy the loss that `fit` of Keras 3.7 to 3.9 reports counts earlier batches once a replica."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
inputs = tf.constant([[2.0], [2.0], [1.0], [1.0]])  # of which the losses are 4 in the first batch, and 1 in the second
data = tf.data.Dataset.from_tensor_slices((inputs, tf.zeros((4, 1)))).batch(2)


def loss_of(strategy):
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.0), "mse")
    return model.fit(data, verbose=0).history["loss"][0]


alone, replicated = loss_of(tf.distribute.get_strategy()), loss_of(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
print("right: the loss is 2.5" if replicated == alone else f"wrong: the loss is {replicated} right: {alone}")
