"""Saved by the default policy a function that updates a variable does so once."""

import tempfile

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    (model := tf.Module()).total = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)
model.add = tf.function(lambda x: model.total.assign_add(2 * x), input_signature=[tf.TensorSpec([])])
tf.saved_model.save(model, path := tempfile.mkdtemp())
loaded = tf.saved_model.load(path)
found = float(loaded.add(0.5))
print("as it should be:" if found == 1.0 else "wrong: 0 + 2 * 0.5 is", found, "right: 1.0")
