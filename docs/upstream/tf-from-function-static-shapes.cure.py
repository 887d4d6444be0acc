"""A batch whose shape is not static, without `drop_remainder`, reaches its replica."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
dataset = tf.data.Dataset.range(6).batch(2).filter(lambda batch: tf.size(batch) == 2)
batches = strategy.distribute_datasets_from_function(lambda _: dataset)
found = [tf.concat(strategy.experimental_local_results(batch), 0).numpy().tolist() for batch in batches]
right = [[0, 1, 2, 3], [4, 5]]
print("as it should be:" if found == right else "wrong:", "global batches", found, "right:", right)
