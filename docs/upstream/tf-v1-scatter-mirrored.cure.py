"""The method of the variable, scatter_add, follows its aggregation."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    table = tf.Variable([0.0, 0.0], aggregation=tf.VariableAggregation.SUM)


@tf.function
def step():
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    table.scatter_add(tf.IndexedSlices(tf.cast([replica + 1], tf.float32), tf.constant([0])))


strategy.run(step)
found = [copy.numpy().tolist() for copy in strategy.experimental_local_results(table)]
right = [[3.0, 0.0], [3.0, 0.0]]
print("as it should be:" if found == right else "wrong:", found, "right:", right)
