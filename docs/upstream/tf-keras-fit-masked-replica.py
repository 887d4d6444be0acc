"""With tf_keras `fit` a replica whose examples are all padding makes the loss and every weight NaN."""

import math

import tensorflow as tf
import tf_keras as keras

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

with strategy.scope():
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Masking(0.0), dense])
    model.compile(keras.optimizers.SGD(0.1), "mse")
# The first replica has the two examples that are padding; on one device the loss is 2.5 and the weight becomes 0.5.
x = tf.constant([[0.0], [0.0], [1.0], [2.0]])
loss = model.fit(tf.data.Dataset.from_tensor_slices((x, 0 * x)).batch(4), verbose=0).history["loss"][0]
weight = float(model.get_weights()[0][0, 0])
print("as it should be:" if math.isfinite(weight) else "wrong:", f"weight {weight}, loss {loss}")
print("right: a finite weight, on one device 0.5")
