"""Behind `take_while` the length is unknown, and the end is looked for."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
parts = [tf.data.Dataset.range(3), tf.data.Dataset.range(9, 10).repeat()]
dataset = tf.data.Dataset.choose_from_datasets(parts, tf.data.Dataset.range(2).repeat(), stop_on_empty_dataset=True)
dataset = dataset.take_while(lambda _: True)
batches = strategy.distribute_datasets_from_function(lambda _: dataset.batch(2))
found = [tf.concat(strategy.experimental_local_results(batch), 0).numpy().tolist() for batch in batches]
right = [[0, 9, 1, 9], [2, 9]]
print("as it should be:" if found == right else "wrong:", "global batches", found, "right:", right)
