"""all_reduce of a list with an int32 tensor raises under MirroredStrategy, where one tensor at a time is right."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@tf.function
def count():
    return tf.distribute.get_replica_context().all_reduce("SUM", [tf.constant(1), tf.constant(2)])


try:
    found = [int(strategy.experimental_local_results(total)[0].numpy()) for total in strategy.run(count)]
except ValueError as error:
    found = str(error).strip().splitlines()[-1].strip()
print("as it should be:" if found == [2, 4] else "wrong:", found, "right: [2, 4]")
