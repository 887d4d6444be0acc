"""A scalar loss that is repeated for each example is scaled as any other, and its mean is the same."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def for_each_example(loss):
    return lambda target, output: tf.fill(tf.shape(output)[:1], loss(target, output))


def step_of(loss):
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(1.0), loss)
    data = tf.data.Dataset.from_tensor_slices((tf.ones([4, 1]), tf.ones([4, 1]))).batch(4)
    reported = model.fit(data, verbose=0).history["loss"][0]
    return f"step {float(model.trainable_variables[0].value[0, 0])}, loss {reported}"


scalar = step_of(for_each_example(lambda target, output: tf.reduce_mean(1.0 - output)))
right = step_of(lambda target, output: 1.0 - output[:, 0])
print("as it should be:" if scalar == right else "wrong:", scalar)
print("right:", right)
