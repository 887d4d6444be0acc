"""tf_keras's synchronized BatchNormalization averages in the old statistics of a replica that has no examples."""

import tensorflow as tf
import tf_keras

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    layer = tf_keras.layers.BatchNormalization(momentum=0.0, synchronized=True)
    layer.build((None, 1))


@tf.function
def step(batch):
    strategy.run(lambda x: layer(x, training=True), args=(batch,))


for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices([[8.0]]).batch(1)):
    step(batch)
mean, variance = layer.moving_mean.numpy(), layer.moving_variance.numpy()
print("as it should be:" if mean == 8.0 and variance == 0.0 else "wrong:", mean, variance, "right: [8.] [0.]")
