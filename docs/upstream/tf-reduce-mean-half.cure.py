"""Cast to float32 in the step, sums and numbers of examples are exact enough."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
losses = strategy.run(lambda: tf.cast(tf.ones([33_000], tf.float16), tf.float32))
mean = float(strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=0))
print("as it should be:" if mean == 1.0 else "wrong:", mean, "right: 1.0")
