"""A subclass whose moving statistics are the mean of the replicas' own can be trained."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


class BatchNormalization(keras.layers.BatchNormalization):
    def add_weight(self, *args, **options):
        return super().add_weight(*args, **{"aggregation": "mean", **options})


strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    layer = BatchNormalization(momentum=0.0)
    layer.build((None, 1))


@tf.function
def step(batch):
    strategy.run(lambda x: layer(x, training=True), args=(batch,))


step(next(iter(strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices([[0.0], [8.0]]).batch(2)))))
mean = layer.moving_mean.numpy()
print("as it should be:" if mean == 4.0 else "wrong:", "moving mean", mean, "right: [4.]")
