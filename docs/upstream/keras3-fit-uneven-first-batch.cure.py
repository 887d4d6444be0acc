"""Fillers of weight 0 let the replicas divide each batch, and the other weights keep the mean that of the batch."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
REPLICAS = 2


def even(x, y):
    size = tf.shape(x)[0]
    more = -size % REPLICAS
    factor = tf.cast(size + more, tf.float32) / tf.cast(size, tf.float32)
    weights = tf.concat([tf.fill([size], factor), tf.zeros([more])], 0)
    return tf.pad(x, [[0, more], [0, 0]]), tf.pad(y, [[0, more], [0, 0]]), weights


def trained(strategy, change):
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.1), "mse")
    x = tf.constant([[1.0], [2.0], [3.0]])
    loss = model.fit(change(tf.data.Dataset.from_tensor_slices((x, 0 * x)).batch(3)), verbose=0).history["loss"][0]
    return round(loss, 5), round(model.get_weights()[0].item(), 5)


found = trained(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), lambda data: data.map(even))
right = trained(tf.distribute.get_strategy(), lambda data: data)
print("as it should be:" if found == right else "wrong:", found, "right:", right)
