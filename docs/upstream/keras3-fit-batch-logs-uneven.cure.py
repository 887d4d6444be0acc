"""In a callback, `model.get_metrics_result()` has the loss of all examples, and `logs` has not."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.0), lambda target, output: output[:, 0])
# The first replica gets three of these examples, the second one two.
values = tf.constant([[0.0], [0.0], [0.0], [0.0], [0.0], [0.0], [0.0], [0.0], [10.0]])
logged = []


class Show(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        logged.append(float(self.model.get_metrics_result()["loss"]))


data = tf.data.Dataset.from_tensor_slices((values, values))
model.fit(data.take(4).batch(4).concatenate(data.skip(4).batch(5)), verbose=0, callbacks=[Show()])
right = 10.0 / 9
print("as it should be:" if abs(logged[-1] - right) < 1e-3 else "wrong:", logged[-1], "right:", right)
