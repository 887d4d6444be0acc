"""Two MirroredStrategy objects in one process use the same keys for their collectives: the second one fails."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def total(size):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    add = tf.function(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([size])))
    return strategy.experimental_local_results(strategy.run(add))[0].numpy()


print(total(2))
try:
    print("as it should be:", total(3))
except tf.errors.InvalidArgumentError as error:
    aborted = next(line for line in error.message.splitlines() if "aborted" in line)
    print("wrong:", aborted.partition("}} ")[2].partition(". ")[0], "right: [2. 2. 2.]")
