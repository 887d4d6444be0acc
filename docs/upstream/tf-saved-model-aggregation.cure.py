"""The variable that was loaded, updated by itself, follows its aggregation."""

import tempfile

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    (model := tf.Module()).total = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)
tf.saved_model.save(model, path := tempfile.mkdtemp())
with strategy.scope():
    loaded = tf.saved_model.load(path)


@tf.function
def step():
    loaded.total.assign_add(tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group + 1, tf.float32))


strategy.run(step)
found = [float(copy.numpy()) for copy in strategy.experimental_local_results(loaded.total)]
print("as it should be:" if found == [3.0, 3.0] else "wrong:", found, "right: [3.0, 3.0]")
