"""Keras 3 `fit` gives batch callbacks the mean of the replicas' own losses, whatever share each has."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.0), lambda target, output: output[:, 0])
# The first replica gets three of these examples, the second one two.
values = tf.constant([[0.0], [0.0], [0.0], [0.0], [0.0], [0.0], [0.0], [0.0], [10.0]])
logged = []
show = keras.callbacks.LambdaCallback(on_train_batch_end=lambda _, logs: logged.append(logs["loss"]))
data = tf.data.Dataset.from_tensor_slices((values, values))
history = model.fit(data.take(4).batch(4).concatenate(data.skip(4).batch(5)), verbose=0, callbacks=[show])
right = history.history["loss"][0]
print("as it should be:" if abs(logged[-1] - right) < 1e-3 else "wrong:", logged[-1], "right:", right)
