"""A metric that is updated outside of the replicas, with what they return, counts each batch once."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    mean = keras.metrics.Mean()


@tf.function
def step(value):
    values = strategy.run(lambda: tf.identity(value))
    mean.update_state(tf.stack(strategy.experimental_local_results(values)))


for value in (0.0, 0.0, 4.0):
    step(tf.constant(value))
found = float(mean.result())
print("as it should be:" if abs(found - 4.0 / 3) < 1e-3 else "wrong:", found, "right:", 4.0 / 3)
