"""In a tf.function all_reduce of tensors of two dtypes raises: they are concatenated."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@tf.function
def total():
    values = [tf.constant(1.0), tf.constant(2.0, tf.float16)]
    return tf.distribute.get_replica_context().all_reduce("SUM", values)


try:
    found = [float(strategy.experimental_local_results(value)[0].numpy()) for value in strategy.run(total)]
except TypeError as error:
    found = str(error).strip().splitlines()[-1].strip()
print("as it should be:" if found == [2.0, 4.0] else "wrong:", found, "right: [2.0, 4.0]")
