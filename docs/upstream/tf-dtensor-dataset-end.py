"""At the end of a DTensorDataset the next eager operation, which has nothing to do with it, raises CancelledError."""

import tensorflow as tf
from tensorflow.experimental import dtensor

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
mesh = dtensor.create_mesh([("batch", 2)], devices=["CPU:0", "CPU:1"])
layout = dtensor.Layout(["batch"], mesh)
numbers = tf.data.Dataset.range(8)
batches = dtensor.DTensorDataset(numbers, mesh=mesh, layouts=layout, global_batch_size=4, batch_dim="batch")
for batch in batches:
    tf.reduce_sum(batch)
try:
    total = tf.reduce_sum(dtensor.relayout(tf.range(8), layout)).numpy()
    print("as it should be:" if total == 28 else "wrong:", "the sum after the loop is", total)
except tf.errors.CancelledError as error:
    print("wrong:", "the sum after the loop raises", type(error).__name__)
