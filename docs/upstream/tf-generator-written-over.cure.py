"""A generator that yields copies keeps its data; so does `from_tensor_slices`, which copies."""

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
    lambda: (data[i : i + 16].copy() for i in range(0, 64, 16)), output_signature=tf.TensorSpec([None])
)


@tf.function
def step(iterator):
    return strategy.run(lambda x: tf.reduce_sum(x * 0.5), args=(next(iterator),))


iterator = iter(strategy.experimental_distribute_dataset(batches))
sums = [sum(map(float, strategy.experimental_local_results(step(iterator)))) for _ in range(4)]
del iterator
changed = np.flatnonzero(data != range(64)).size
right = not changed and sums == [60.0, 188.0, 316.0, 444.0]
print("as it should be:" if right else "wrong:", f"{changed} of 64 numbers were written over, and the sums are {sums}")
