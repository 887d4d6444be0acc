"""Under a strategy Keras 3 fit and evaluate of a PyDataset with workers take some batches twice and others never."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(loss="mae")


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 40

    def __getitem__(self, number):
        return tf.fill([4, 1], float(number)), tf.zeros([4, 1])


mean = model.evaluate(Batches(workers=2), verbose=0)
print("as it should be:" if mean == 19.5 else "wrong:", "mean of all batches", mean, "right: 19.5")
