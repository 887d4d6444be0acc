"""A function of a SavedModel that replicas run writes each copy of a variable by itself, whatever its aggregation."""

import tempfile

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    (model := tf.Module()).total = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)
model.add = tf.function(lambda x: model.total.assign_add(2 * x), input_signature=[tf.TensorSpec([])])
tf.saved_model.save(model, path := tempfile.mkdtemp())
with strategy.scope():
    loaded = tf.saved_model.load(path)


@tf.function
def step():
    loaded.add(tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group + 1, tf.float32))


strategy.run(step)
found = [float(copy.numpy()) for copy in strategy.experimental_local_results(loaded.total)]
print("as it should be:" if found == [6.0, 6.0] else "wrong:", found, "right: [6.0, 6.0]", loaded.total.aggregation)
