"""`MirroredStrategy.run` of a `tf.function(jit_compile=True)` compiles all replicas as one XLA program, and raises."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    weight = tf.Variable(2.0)


@tf.function(jit_compile=True)
def replica_step():
    return 3.0 * weight


try:
    found = strategy.reduce("SUM", strategy.run(replica_step), axis=None).numpy()
    print("as it should be:" if found == 12.0 else "wrong:", found, "right: 12.0")
except tf.errors.InvalidArgumentError as error:
    print("wrong:", next(line for line in str(error).splitlines() if "Trying to access resource" in line))
