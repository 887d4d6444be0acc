"""The batch of a replica without data has rows where the batch size is static and another dimension is not."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
dataset = tf.data.Dataset.range(6).map(lambda n: tf.fill([n], n)).padded_batch(2, drop_remainder=True)
batches = strategy.distribute_datasets_from_function(lambda _: dataset)
shapes = [[part.shape.as_list() for part in strategy.experimental_local_results(batch)] for batch in batches]
rows = sum(shape[0] for step in shapes for shape in step)
print("as it should be:" if rows == 6 else "wrong:", rows, "examples, shapes", shapes, "right: 6 examples, [0, 0] last")
