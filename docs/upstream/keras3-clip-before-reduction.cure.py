"""An optimizer that sums the replicas' gradients before it clips, and gives each replica its part of what is left."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


class ClippedSGD(keras.optimizers.SGD):
    def apply(self, gradients, variables=None):
        context = tf.distribute.get_replica_context()
        sums = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        super().apply([tf.clip_by_norm(each, 1.0) / context.num_replicas_in_sync for each in sums], variables)


strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    weights = keras.Variable([0.0, 0.0])
    optimizer = ClippedSGD(1.0)
    optimizer.build([weights])
own = tf.constant([3.0, 4.0])
tf.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(own, weights)])))()
length = float(tf.norm(weights.value))
print("as it should be:" if abs(length - 1.0) < 1e-3 else "wrong:", "a step of length", length, "right: 1.0")
