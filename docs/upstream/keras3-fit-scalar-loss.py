"""Keras 3 `fit` trains with R times the gradient when a loss function returns a scalar, as Dice does."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def step_of(loss):
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(1.0), loss)
    data = tf.data.Dataset.from_tensor_slices((tf.ones([4, 1]), tf.ones([4, 1]))).batch(4)
    reported = model.fit(data, verbose=0).history["loss"][0]
    return f"step {float(model.trainable_variables[0].value[0, 0])}, loss {reported}"


scalar = step_of(lambda target, output: tf.reduce_mean(1.0 - output))
right = step_of(lambda target, output: 1.0 - output[:, 0])
print("as it should be:" if scalar == right else "wrong:", scalar)
print("right:", right)
