"""Counts in int64 are all-reduced together."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@tf.function
def count():
    counts = [tf.constant(1, tf.int64), tf.constant(2, tf.int64)]
    return tf.distribute.get_replica_context().all_reduce("SUM", counts)


found = [int(strategy.experimental_local_results(total)[0].numpy()) for total in strategy.run(count)]
print("as it should be:" if found == [2, 4] else "wrong:", found, "right: [2, 4]")
