"""A sum, with weights that divide by what the mask leaves of the global batch, weights all positions alike."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def trained(strategy):
    with strategy.scope():
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        model = keras.Sequential([keras.Input((1,)), keras.layers.Masking(0.0), dense])
        model.compile(keras.optimizers.SGD(0.125), keras.losses.MeanSquaredError(reduction="sum"))

    def weighted(x, y):  # Keras 3 divides a sum by no number of replicas
        kept = tf.cast(tf.reduce_any(x != 0.0, -1), tf.float32)
        return x, y, kept / tf.reduce_sum(kept)

    x = tf.constant([[0.0], [1.0], [2.0], [4.0]])
    loss = model.fit(tf.data.Dataset.from_tensor_slices((x, 0 * x)).batch(4).map(weighted), verbose=0).history["loss"][
        0
    ]
    return float(model.get_weights()[0][0, 0]), loss


found, right = trained(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])), (-0.75, 7.0)
close = all(abs(one - other) < 1e-6 for one, other in zip(found, right, strict=True))
print("as it should be:" if close else "wrong:", "weight and loss", found, "right:", right)
