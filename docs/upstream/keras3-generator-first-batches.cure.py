"""The same with a dataset made of the generator's function, which can begin again."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(loss="mae")


def batches():
    for number in range(40):
        yield tf.fill([4, 1], float(number)), tf.zeros([4, 1])


data = tf.data.Dataset.from_generator(batches, output_signature=(tf.TensorSpec([4, 1]), tf.TensorSpec([4, 1])))
mean = model.evaluate(data.apply(tf.data.experimental.assert_cardinality(40)), verbose=0)
print("as it should be:" if mean == 19.5 else "wrong:", "mean of all batches", mean, "right: 19.5")
