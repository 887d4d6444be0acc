"""scatter_nd_add, batch_scatter_update, gather_nd and their like raise for a mirrored variable."""

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    table = tf.Variable([1.0, 2.0])
raised = []
for method, given in (
    ("scatter_nd_add", ([[0]], [8.0])),
    ("scatter_nd_update", ([[0]], [9.0])),
    ("batch_scatter_update", (tf.IndexedSlices(tf.constant([9.0]), tf.constant([0])),)),
    ("gather_nd", ([[0]],)),
):
    try:
        getattr(table, method)(*given)
    except (AttributeError, NotImplementedError) as error:
        raised.append(f"{method}: {type(error).__name__}")
print("as it should be:" if not raised else "wrong:", raised, "right: what a variable on one device does")
