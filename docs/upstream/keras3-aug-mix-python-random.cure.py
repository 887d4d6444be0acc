"""Called eagerly from the graph, the layer chooses for each batch anew."""

import random

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
chosen, choice = [], random.choice
random.choice = lambda among: chosen.append(choice(among)) or chosen[-1]
layer = keras.layers.AugMix(num_chains=1, chain_depth=1)
images = tf.random.stateless_uniform([2, 8, 8, 3], (1, 2), 0.0, 255.0)


@tf.function
def augment(rows):
    return strategy.run(lambda: tf.py_function(lambda given: layer(given, training=True), [rows], tf.float32))


for _ in range(10):
    augment(images)
print(
    "as it should be:" if len(chosen) >= 20 else "wrong:",
    f"{len(chosen)} choices for 10 batches of 2 replicas, right: 20",
)
