"""A dataset with `shard(SHARD_HINT, ...)` can count as infinite: MirroredStrategy then loses its last batch."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.HINT
dataset = tf.data.Dataset.range(10).shard(tf.data.experimental.SHARD_HINT, 0).batch(4).with_options(options)
batches = strategy.experimental_distribute_dataset(dataset)
found = [tf.concat(strategy.experimental_local_results(batch), 0).numpy().tolist() for batch in batches]
right = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
print("as it should be:" if found == right else "wrong:", found, "cardinality", batches.cardinality, "right:", right, 3)
