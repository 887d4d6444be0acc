"""Outside of the scope, assigning a slice of a mirrored variable changes the copy of the first replica only."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    weights = tf.Variable([1.0, 2.0])
weights[0:1].assign([9.0])
found = [copy.numpy().tolist() for copy in strategy.experimental_local_results(weights)]
right = [[9.0, 2.0], [9.0, 2.0]]
print("as it should be:" if found == right else "wrong:", found, "right:", right)
