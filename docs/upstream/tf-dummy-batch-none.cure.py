"""An empty tuple instead of None has no shape to ask for."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
dataset = tf.data.Dataset.range(8).map(lambda n: (n, ())).batch(4)


@tf.function
def step(batches):
    sums = strategy.run(lambda rows, _: tf.reduce_sum(rows), args=next(batches))
    return strategy.reduce("SUM", sums, axis=None)


try:
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    found = [int(step(iterator)) for _ in range(2)]
    print("as it should be:" if found == [6, 22] else "wrong:", "sums", found, "right: [6, 22]")
except AttributeError as error:
    print("wrong:", str(error).strip().splitlines()[-1].strip(), "right: sums [6, 22]")
