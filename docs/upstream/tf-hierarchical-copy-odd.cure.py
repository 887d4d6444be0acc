"""ReductionToOneDevice, which needs no NCCL either, adds up all replicas."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
strategy = tf.distribute.MirroredStrategy(
    ["CPU:0", "CPU:1", "CPU:2"], cross_device_ops=tf.distribute.ReductionToOneDevice()
)


@tf.function
def step():
    context = tf.distribute.get_replica_context()
    return context.all_reduce("SUM", 1.0 + tf.cast(context.replica_id_in_sync_group, tf.float32))


total = strategy.experimental_local_results(strategy.run(step))[0].numpy()
print("as it should be:" if total == 6.0 else "wrong: 1 + 2 + 3 is", total, "right: 6.0")
