"""Training writes over the NumPy arrays that a generator yields, where its batches are split for replicas."""

import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

memory = np.zeros(64 + 16, np.float32)
data = memory[-memory.ctypes.data % 64 // 4 :][:64]  # TensorFlow copies what begins at no multiple of 64 bytes
data[:] = range(64)
batches = tf.data.Dataset.from_generator(
    lambda: (data[i : i + 16] for i in range(0, 64, 16)), output_signature=tf.TensorSpec([None])
)


@tf.function
def step(iterator):
    return strategy.run(lambda x: tf.reduce_sum(x * 0.5), args=(next(iterator),))


iterator = iter(strategy.experimental_distribute_dataset(batches))
for _ in range(4):
    step(iterator)
del iterator
changed = np.flatnonzero(data != range(64)).size
print("wrong:" if changed else "as it should be:", f"{changed} of 64 numbers were written over: {data[:4]} ...")
print("right: no training changes its data, so that a second epoch reads the same")
