"""Keras 3 `fit` gives batch callbacks the mean of the replicas' own precision."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.0), "mse", metrics=[keras.metrics.Precision(name="precision")])
# Three of the four examples count as positive, and one of them is: 0 of 1 on the first replica, 1 of 2 on the second.
scores, labels = tf.constant([[0.0], [1.0], [1.0], [1.0]]), tf.constant([[0.0], [0.0], [0.0], [1.0]])
logged = []
show = keras.callbacks.LambdaCallback(on_train_batch_end=lambda _, logs: logged.append(logs["precision"]))
data = tf.data.Dataset.from_tensor_slices((scores, labels)).batch(4)
history = model.fit(data, verbose=0, callbacks=[show])
right = history.history["precision"][0]
print("as it should be:" if abs(logged[0] - right) < 1e-3 else "wrong:", logged[0])
print("right:", right)
