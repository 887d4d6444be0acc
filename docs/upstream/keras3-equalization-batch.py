"""Keras 3's Equalization has one histogram for all images of a batch, and each replica has one of its own images."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
layer = keras.layers.Equalization()
bright = tf.random.stateless_uniform([8, 8, 3], (1, 2), 128.0, 255.0)
images = tf.stack([bright, bright - 128.0])
one = layer(images)
batches = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(images).batch(2))
found = tf.concat([strategy.experimental_local_results(strategy.run(layer, (batch,))) for batch in batches], 0)
off = float(tf.reduce_max(tf.abs(tf.reshape(found, one.shape) - one)))
print("as it should be:" if off < 0.01 else "wrong:", f"two replicas and one device differ by {off:.0f}, right: 0")
