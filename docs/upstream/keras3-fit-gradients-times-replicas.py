"""`fit` of Keras 3.5 to 3.7 under MirroredStrategy adds up the gradients of the replicas' mean losses: with R replicas
each step is R times too long.
"""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.25), "mse")
data = tf.data.Dataset.from_tensors((tf.ones((2, 1)), tf.zeros((2, 1))))
model.fit(data, verbose=0)
weight = model.get_weights()[0].item()
print("right: 0.5" if weight == 0.5 else f"wrong: the weight is {weight}, right: 0.5")
