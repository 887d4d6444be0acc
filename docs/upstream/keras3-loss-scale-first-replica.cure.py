"""A LossScaleOptimizer that tells every replica of an overflow on any: all of them skip the step."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    def apply(self, gradients, trainable_variables=None):
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])
        overflows = tf.distribute.get_replica_context().all_reduce("SUM", tf.where(finite, 0.0, 1.0))
        told = [tf.where(overflows > 0.0, float("nan"), gradient) for gradient in gradients]
        super().apply(told, trainable_variables)


strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    weight = keras.Variable([1.0])
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0))
    optimizer.build([weight])
step = tf.function(lambda own: strategy.run(lambda own: optimizer.apply_gradients([(own, weight)]), args=(own,)))
by_replica = [[0.0], [float("inf")]]
step(
    strategy.experimental_distribute_values_from_function(lambda c: tf.constant(by_replica[c.replica_id_in_sync_group]))
)
found = f"{weight.numpy()} scale {float(optimizer.dynamic_scale.numpy())}"
print("as it should be:" if found == "[1.] scale 16384.0" else "wrong:", found, "right: [1.] scale 16384.0")
