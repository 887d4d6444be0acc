"""The same with a sum and sample weights that are divided by the sum of those of the batch."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    loss = keras.losses.MeanSquaredError(reduction="sum")
    model.compile(keras.optimizers.SGD(0.125), loss)
examples, weights = tf.constant([[1.0], [1.0], [1.0], [1.0]]), tf.constant([1.0, 1.0, 1.0, 0.0])
targets = tf.constant([[0.0], [0.0], [4.0], [4.0]])
model.fit(examples, targets, batch_size=4, sample_weight=weights / 3.0, shuffle=False, verbose=0)
weight, right = model.get_weights()[0].item(), 1 - 0.125 * 2 * (1 + 1 - 3) / 3
print("as it should be:" if abs(weight - right) < 1e-6 else "wrong:", "weight", weight, "right:", round(right, 6))
