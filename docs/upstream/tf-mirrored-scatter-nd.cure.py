"""tf.tensor_scatter_nd_add and tf.gather_nd take a mirrored variable, and assign writes all copies."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    table = tf.Variable([1.0, 2.0])
table.assign(tf.tensor_scatter_nd_add(table, [[0]], [8.0]))
table.assign(tf.tensor_scatter_nd_update(table, [[1]], [9.0]))
found = tf.gather_nd(table, [[0], [1]]).numpy().tolist()
copies = [copy.numpy().tolist() for copy in strategy.experimental_local_results(table)]
right = [9.0, 9.0]
print("as it should be:" if found == right and copies == [right, right] else "wrong:", found, copies, "right:", right)
