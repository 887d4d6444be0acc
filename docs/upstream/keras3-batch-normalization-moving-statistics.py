"""Keras 3 BatchNormalization keeps the first replica's moving statistics; tf_keras has the mean of all."""

import keras
import tensorflow as tf
import tf_keras

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def moving_mean(layers):
    with strategy.scope():
        layer = layers.BatchNormalization(momentum=0.0)
        layer.build((None, 1))

    @tf.function
    def step(batch):
        strategy.run(lambda pixels: layer(pixels, training=True), args=(batch,))

    for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices([[0.0], [8.0]]).batch(2)):
        step(batch)
    return layer.moving_mean.numpy()


found, right = moving_mean(keras.layers), moving_mean(tf_keras.layers)
print("as it should be:" if found == right else "wrong:", found, "right:", right)
