"""The sums of synchronized BatchNormalization need no care for an empty replica: without it that one keeps them too."""

import tensorflow as tf
import tf_keras

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


class BatchNormalization(tf_keras.layers.BatchNormalization):
    def _support_zero_size_input(self):
        return not self.synchronized and super()._support_zero_size_input()


strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    layer = BatchNormalization(momentum=0.0, synchronized=True)
    layer.build((None, 1))


@tf.function
def step(batch):
    strategy.run(lambda x: layer(x, training=True), args=(batch,))


for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices([[8.0]]).batch(1)):
    step(batch)
mean, variance = layer.moving_mean.numpy(), layer.moving_variance.numpy()
print("as it should be:" if mean == 8.0 and variance == 0.0 else "wrong:", mean, variance, "right: [8.] [0.]")
