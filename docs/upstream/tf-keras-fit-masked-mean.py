"""tf_keras `fit` averages over each replica's own unmasked positions, so that padding weights replicas unequally."""

import tensorflow as tf
import tf_keras as keras

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)


def weight_under(strategy):
    with strategy.scope():
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        model = keras.Sequential([keras.Input((1,)), keras.layers.Masking(0.0), dense])
        model.compile(keras.optimizers.SGD(0.125), "mse")
    # Of four examples the first is padding: the replicas have one and two others.
    x = tf.constant([[0.0], [1.0], [2.0], [4.0]])
    model.fit(tf.data.Dataset.from_tensor_slices((x, 0 * x)).batch(4), verbose=0)
    return float(model.get_weights()[0][0, 0])


found = weight_under(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
right = weight_under(tf.distribute.get_strategy())
print("as it should be:" if abs(found - right) < 1e-3 else "wrong:", f"weight {found}")
print("right:", f"weight {right}")
