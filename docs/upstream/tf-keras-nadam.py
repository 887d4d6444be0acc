"""tf_keras's Nadam divides by zero on every replica but the first, which alone computes a running product."""

import tensorflow as tf
import tf_keras

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    weight = tf.Variable([1.0])
    optimizer = tf_keras.optimizers.Nadam()
    optimizer.build([weight])


@tf.function
def step():
    strategy.run(lambda: optimizer.apply_gradients([(tf.ones([1]), weight)]))


step()
first, second = strategy.experimental_local_results(weight)
found = "as it should be:" if first.numpy() == second.numpy() else "wrong:"
print(found, first.numpy(), second.numpy(), "right: the same number on both replicas, [0.998...]")
