"""A tf.function takes each variable for itself, where it is given in a module."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    (first := tf.Module()).variable = tf.Variable(1.0)
    (second := tf.Module()).variable = tf.Variable(2.0)


@tf.function
def increase(module):
    module.variable.assign_add(10.0)


increase(first)
increase(second)
found = [float(first.variable.numpy()), float(second.variable.numpy())]
print("as it should be:" if found == [11.0, 12.0] else "wrong:", found, "right: [11.0, 12.0]")
