"""A compat.v1 optimizer outside of strategy.run updates the copy of the first replica, without an error."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    weight = tf.Variable(1.0)
optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.5)
try:
    optimizer.minimize(lambda: weight, var_list=[weight])
    found = [float(copy.numpy()) for copy in strategy.experimental_local_results(weight)]
    print("as it should be:" if found == [0.5, 0.5] else "wrong:", found, "right: [0.5, 0.5], or an error")
except RuntimeError:
    print("as it should be: an error")
