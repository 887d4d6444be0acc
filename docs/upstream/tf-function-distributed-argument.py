"""A tf.function takes the first mirrored variable that it was called with for any other one of its shape and dtype."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    first, second = tf.Variable(1.0), tf.Variable(2.0)


@tf.function
def increase(variable):
    variable.assign_add(10.0)


increase(first)
increase(second)
found = [float(first.numpy()), float(second.numpy())]
print("as it should be:" if found == [11.0, 12.0] else "wrong:", found, "right: [11.0, 12.0]")
