"""Without oneDNN's kernels a convolution of no examples has the right shape."""

import os

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # before TensorFlow is imported

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensors(tf.ones([4, 4, 2])).batch(2))


@tf.function
def step(images):
    return strategy.run(lambda x: tf.nn.conv2d(x, tf.ones([3, 3, 2, 5]), 1, "SAME"), (images,))


for batch in dataset:
    found = [tuple(each.shape) for each in strategy.experimental_local_results(step(batch))]
    right = [(1, 4, 4, 5), (0, 4, 4, 5)]
    print("as it should be:" if found == right else "wrong:", "shapes on two replicas", found, "right:", right)
