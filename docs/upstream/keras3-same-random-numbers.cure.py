"""A subclass that draws its mask from the seed and the number of the replica."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


class Dropout(keras.layers.Dropout):
    def call(self, inputs, training=False):
        if not training:
            return inputs
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        seed = self.seed_generator.next() + tf.cast([replica, 0], tf.int64)
        return tf.nn.experimental.stateless_dropout(inputs, self.rate, seed)


strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    dropout = Dropout(0.5)
    dropout.build((None, 64))


@tf.function
def step():
    return strategy.run(lambda: dropout(tf.ones([1, 64]), training=True))


masks = [tuple(mask.numpy()[0]) for _ in range(2) for mask in strategy.experimental_local_results(step())]
right = len(set(masks)) == 4 and all(set(mask) == {0.0, 2.0} for mask in masks)
print("as it should be:" if right else "wrong:", len(set(masks)), "masks of two replicas in two steps, right: 4")
