"""Keras 3 `ema_overwrite_frequency` raises with several replicas."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    weight = keras.Variable([1.0])
    optimizer = keras.optimizers.SGD(1.0, use_ema=True, ema_overwrite_frequency=2)
    optimizer.build([weight])


@tf.function
def step():
    strategy.run(lambda: optimizer.apply_gradients([(tf.ones([1]), weight)]))


try:
    step()
except RuntimeError as error:
    print("wrong:", next(line for line in str(error).splitlines() if "merge_call" in line)[:90])
