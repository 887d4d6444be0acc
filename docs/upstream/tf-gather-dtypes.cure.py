"""What replicas have is concatenated by the program."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
names = strategy.experimental_distribute_values_from_function(
    lambda context: tf.constant([f"row {context.replica_id_in_sync_group}"])
)
found = tf.concat(strategy.experimental_local_results(names), axis=0).numpy().tolist()
right = [b"row 0", b"row 1"]
print("as it should be:" if found == right else "wrong:", found, "right:", right)
