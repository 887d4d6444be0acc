"""CentralStorageStrategy.experimental_distribute_dataset raises for any InputOptions: it asks for a misspelt one."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"], "CPU:0")
options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
try:
    batches = strategy.experimental_distribute_dataset(tf.data.Dataset.range(2).batch(2), options)
    found = [tf.concat(strategy.experimental_local_results(batch), 0).numpy().tolist() for batch in batches]
except AttributeError as error:
    found = str(error)
print("as it should be:" if found == [[0, 1]] else "wrong:", found, "right: [[0, 1]]")
