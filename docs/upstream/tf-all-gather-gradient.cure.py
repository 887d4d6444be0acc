"""Multiplied by 1, what all_gather gives has a gradient that is no IndexedSlices."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@tf.function
def gradient():
    rows = tf.constant([[1.0], [2.0]])
    with tf.GradientTape() as tape:
        tape.watch(rows)
        gathered = tf.distribute.get_replica_context().all_gather(rows, axis=0)
        loss = tf.reduce_sum(tf.gather(tf.convert_to_tensor(1.0) * gathered, [0, 2, 2]))
    return tape.gradient(loss, rows)


found = [value.numpy().tolist() for value in strategy.experimental_local_results(strategy.run(gradient))]
right = [[[2.0], [0.0]], [[4.0], [0.0]]]
print("as it should be:" if found == right else "wrong:", found, "right:", right)
