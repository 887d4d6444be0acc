"""Dense rows can be given to any number of replicas, each of which makes its part sparse again."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
sparse = tf.SparseTensor([[0, 0], [1, 0], [2, 0]], [1, 2, 3], [3, 1])
dataset = tf.data.Dataset.from_tensor_slices(sparse).batch(2).map(tf.sparse.to_dense)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def sums(rows):
    return tf.sparse.reduce_sum(tf.sparse.from_dense(rows))


@tf.function
def step(batch):
    return strategy.reduce("SUM", strategy.run(sums, args=(batch,)), axis=None)


found = [int(step(batch)) for batch in strategy.experimental_distribute_dataset(dataset)]
print("as it should be:" if found == [1 + 2, 3] else "wrong:", "sums of the batches:", found, "right: [3, 3]")
