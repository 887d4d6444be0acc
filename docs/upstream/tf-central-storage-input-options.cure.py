"""The method of the base class takes the options."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"], "CPU:0")
options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
dataset = tf.data.Dataset.range(2).batch(2)
batches = tf.distribute.Strategy.experimental_distribute_dataset(strategy, dataset, options)
found = [tf.concat(strategy.experimental_local_results(batch), 0).numpy().tolist() for batch in batches]
print("as it should be:" if found == [[0, 1]] else "wrong:", found, "right: [[0, 1]]")
