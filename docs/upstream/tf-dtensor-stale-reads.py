"""Combining all-reduces moves a variable's write behind its read: DTensor reads the value before the step's."""

import tensorflow as tf
from tensorflow.experimental import dtensor

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
mesh = dtensor.create_mesh([("batch", 2)], devices=["CPU:0", "CPU:1"])
x = dtensor.relayout(tf.constant([[1.0], [2.0]]), dtensor.Layout(["batch", dtensor.UNSHARDED], mesh))
m, w = (dtensor.DVariable(dtensor.relayout(tf.zeros([1]), dtensor.Layout.replicated(mesh, 1))) for _ in range(2))


@tf.function
def step(x):
    m.assign_add(tf.reduce_sum(x, 0))
    w.assign_sub(m.read_value())
    return tf.reduce_sum(x * x)


step(x)
print("as it should be:" if w.numpy() == -m.numpy() else "wrong:", f"m is {m.numpy()}, w {w.numpy()} and should be -m")
