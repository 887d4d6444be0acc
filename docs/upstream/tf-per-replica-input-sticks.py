"""A dataset distributed per replica changes the strategy: of later datasets each replica has its own, all examples."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
mode = tf.distribute.InputReplicationMode.PER_REPLICA
options = tf.distribute.InputOptions(experimental_replication_mode=mode)
strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.range(4).batch(2), options)
batches = strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.range(8).batch(2))
found = [tf.concat(strategy.experimental_local_results(batch), 0).numpy().tolist() for batch in batches]
right = [[0, 1, 2, 3], [4, 5, 6, 7]]
print("as it should be:" if found == right else "wrong:", "global batches", found, "right:", right)
