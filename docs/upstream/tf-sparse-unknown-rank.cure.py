"""With a rank that is known the rows are shared out."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
sparse = tf.sparse.from_dense([[1, 0], [0, 2], [3, 0], [0, 4]])
dataset = tf.data.Dataset.from_generator(
    lambda: iter([sparse]), output_signature=tf.SparseTensorSpec([None, None], tf.int32)
)
assert [tf.sparse.reduce_sum(batch).numpy() for batch in dataset] == [10]
try:
    batches = strategy.experimental_distribute_dataset(dataset)
    found = [[int(tf.sparse.reduce_sum(part)) for part in batch.values] for batch in batches]
    print("as it should be:" if found == [[3, 7]] else "wrong:", "sums", found, "right: [[3, 7]]")
except TypeError as error:
    print("wrong:", error, "right: sums [[3, 7]]")
