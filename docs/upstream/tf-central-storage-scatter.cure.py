"""`assign_add` of the rows written out follows the aggregation."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"], "CPU:0")
with strategy.scope():
    table = tf.Variable([0.0, 0.0], aggregation=tf.VariableAggregation.MEAN)


@tf.function
def step():
    strategy.run(lambda: table.assign_add(tf.convert_to_tensor(tf.IndexedSlices([4.0], [1], [2]))))


step()
print("as it should be:" if table[1] == 4.0 else "wrong:", table.numpy(), "right: [0. 4.]")
