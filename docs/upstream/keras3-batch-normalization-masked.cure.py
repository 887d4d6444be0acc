"""A subclass sums over all replicas what the mask leaves."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


class BatchNormalization(keras.layers.BatchNormalization):
    def _moments(self, inputs, mask):
        weights = tf.broadcast_to(tf.cast(mask, inputs.dtype)[..., None], tf.shape(inputs))
        own = [tf.reduce_sum(each, range(len(inputs.shape) - 1)) for each in (weights, weights * inputs)]
        count, total = tf.distribute.get_replica_context().all_reduce("SUM", own)
        mean = total / count
        squares = tf.reduce_sum(weights * (inputs - mean) ** 2, range(len(inputs.shape) - 1))
        return mean, tf.distribute.get_replica_context().all_reduce("SUM", squares) / count


strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    layer = BatchNormalization(momentum=0.0, synchronized=True)
    layer.build((None, 1, 1))
x = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensors([[[0.0]], [[8.0]]]).rebatch(2))
batch = next(iter(x))
tf.function(lambda: strategy.run(lambda x: layer(x, training=True, mask=tf.ones([1, 1], tf.bool)), args=(batch,)))()
mean, variance = layer.moving_mean.numpy(), layer.moving_variance.numpy()
close = abs(mean - 4.0) < 1e-3 and abs(variance - 16.0) < 1e-3
print("as it should be:" if close else "wrong:", mean, variance, "right: [4.] [16.]")
