"""Keras 3 LossScaleOptimizer applies an infinite gradient when the first replica's own is finite."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    weight = keras.Variable([1.0])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0))
    optimizer.build([weight])


@tf.function
def step(gradient):
    strategy.run(lambda gradient: optimizer.apply_gradients([(gradient, weight)]), args=(gradient,))


by_replica = [[0.0], [float("inf")]]
step(
    strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(by_replica[context.replica_id_in_sync_group])
    )
)
found = f"{weight.numpy()} scale {float(optimizer.dynamic_scale.numpy())}"
print("as it should be:" if found == "[1.] scale 16384.0" else "wrong:", found, "right: [1.] scale 16384.0")
