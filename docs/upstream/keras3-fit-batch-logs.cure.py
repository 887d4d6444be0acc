"""In a callback, `model.get_metrics_result()` has the metrics of all replicas, and `logs` has not."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.0), "mse", metrics=[keras.metrics.Precision(name="precision")])
# Three of the four examples count as positive, and one of them is: 0 of 1 on the first replica, 1 of 2 on the second.
scores, labels = tf.constant([[0.0], [1.0], [1.0], [1.0]]), tf.constant([[0.0], [0.0], [0.0], [1.0]])
logged = []


class Show(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        logged.append(float(self.model.get_metrics_result()["precision"]))


model.fit(tf.data.Dataset.from_tensor_slices((scores, labels)).batch(4), verbose=0, callbacks=[Show()])
print("as it should be:" if abs(logged[0] - 1 / 3) < 1e-3 else "wrong:", logged[0], "right:", 1 / 3)
