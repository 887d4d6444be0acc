"""gather and all_gather raise for strings, booleans, bytes and bfloat16 under MirroredStrategy."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
names = strategy.experimental_distribute_values_from_function(
    lambda context: tf.constant([f"row {context.replica_id_in_sync_group}"])
)
try:
    found = strategy.gather(names, axis=0).numpy().tolist()
except TypeError as error:
    found = str(error).strip().splitlines()[-1].strip().replace(" in list of allowed values", "")
right = [b"row 0", b"row 1"]
print("as it should be:" if found == right else "wrong:", found, "right:", right)
