"""An optimizer of Keras 3 with slots that is first used inside of a `tf.function` raises with several replicas."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam()  # optimizer.build(model.trainable_variables) here avoids the error


def replica_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(x) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


@tf.function
def step(x):
    strategy.run(replica_step, args=(x,))


try:
    step(tf.ones([4, 1]))
except tf.errors.InvalidArgumentError as error:
    print("wrong:", next(line for line in error.message.splitlines() if "placeholder" in line)[:90])
