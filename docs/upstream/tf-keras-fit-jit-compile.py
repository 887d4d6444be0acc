"""tf_keras `fit` with `jit_compile=True` raises with several replicas."""

import tensorflow as tf
import tf_keras

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = tf_keras.Sequential([tf_keras.Input((1,)), tf_keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=True)
try:
    model.fit(tf.data.Dataset.from_tensor_slices((tf.ones([8, 1]), tf.ones([8, 1]))).batch(4), verbose=0)
except tf.errors.InvalidArgumentError as error:
    print("wrong:", next(line for line in str(error).splitlines() if "Trying to access resource" in line))
