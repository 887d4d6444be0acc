"""assign of the whole variable, multiplied, follows its aggregation."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    table = tf.Variable([8.0, 8.0], aggregation=tf.VariableAggregation.MEAN)


@tf.function
def step():
    table.assign(tf.tensor_scatter_nd_update(table, [[0]], [2.0 * table[0]]))


strategy.run(step)
found = table.numpy().tolist()
print("as it should be:" if found == [16.0, 8.0] else "wrong:", found, "right: [16.0, 8.0]")
