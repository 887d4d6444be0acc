"""scatter_mul of a mirrored variable multiplies by the product of what replicas give, not by their mean or sum."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    table = tf.Variable([8.0, 8.0], aggregation=tf.VariableAggregation.MEAN)


@tf.function
def step():
    table.scatter_mul(tf.IndexedSlices(tf.constant([2.0]), tf.constant([0])))


strategy.run(step)
found = table.numpy().tolist()
print("as it should be:" if found == [16.0, 8.0] else "wrong: 8 by the mean of 2 and 2 is", found, "right: [16.0, 8.0]")
