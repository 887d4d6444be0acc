"""Keras 3 BatchNormalization(synchronized=True) does not synchronize when its input has a mask."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    layer = keras.layers.BatchNormalization(momentum=0.0, synchronized=True)
    layer.build((None, 1, 1))


@tf.function
def step(batch):
    strategy.run(lambda x: layer(x, training=True, mask=tf.ones([1, 1], tf.bool)), args=(batch,))


for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices([[[0.0]], [[8.0]]]).batch(2)):
    step(batch)
mean, variance = layer.moving_mean.numpy(), layer.moving_variance.numpy()
close = abs(mean - 4.0) < 1e-3 and abs(variance - 16.0) < 1e-3
print("as it should be:" if close else "wrong:", mean, variance, "right: [4.] [16.]")
