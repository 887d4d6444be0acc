"""A loss that is named as a metric too is a mean over the examples of all replicas."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def loss(target, output):
    return output[:, 0]


def losses(devices):
    with tf.distribute.MirroredStrategy(devices).scope():
        inputs = keras.Input((1,))
        outputs = [keras.layers.Dense(1, kernel_initializer="ones", name=name)(inputs) for name in "ab"]
        model = keras.Model(inputs, outputs)
        metrics = [[keras.metrics.MeanMetricWrapper(loss, name="mean")] for _ in outputs]
        model.compile(keras.optimizers.SGD(0.0), [loss] * 2, metrics=metrics)
    x = tf.range(1.0, 20.0)[:, None]
    history = model.fit(tf.data.Dataset.from_tensor_slices((x, (x, x))).batch(12), verbose=0).history
    return {name: round(history[name][0], 5) for name in ("a_mean", "b_mean", "loss")}


both, alone = losses(["CPU:0", "CPU:1"]), losses(["CPU:0"])
right = {"a_mean": 10.0, "b_mean": 10.0, "loss": 20.0}
print("as it should be:" if both == alone == right else "wrong:", both, "on one device", alone, "right:", right)
