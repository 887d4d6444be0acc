"""Keras 3 `fit` reports the loss of each of several outputs as a mean over batches and replicas, not over examples."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)


def losses(devices):
    with tf.distribute.MirroredStrategy(devices).scope():
        inputs = keras.Input((1,))
        outputs = [keras.layers.Dense(1, kernel_initializer="ones", name=name)(inputs) for name in "ab"]
        model = keras.Model(inputs, outputs)
        model.compile(keras.optimizers.SGD(0.0), [lambda target, output: output[:, 0]] * 2)
    x = tf.range(1.0, 20.0)[:, None]
    history = model.fit(tf.data.Dataset.from_tensor_slices((x, (x, x))).batch(12), verbose=0).history
    return {name: values[0] for name, values in history.items()}


both, alone = losses(["CPU:0", "CPU:1"]), losses(["CPU:0"])
print("as it should be:" if abs(both.get("a_loss", 10.0) - 10.0) < 1e-3 else "wrong:", both)
print("as it should be:" if abs(alone.get("a_loss", 10.0) - 10.0) < 1e-3 else "wrong:", alone, "on one device")
print("right: {'a_loss': 10.0, 'b_loss': 10.0, 'loss': 20.0}")
