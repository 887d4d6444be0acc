"""With synchronized=True all replicas keep the statistics of the whole batch, as one device does."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def moving(strategy):
    with strategy.scope():
        layer = keras.layers.BatchNormalization(momentum=0.0, synchronized=True)
        layer.build((None, 1))

    @tf.function
    def step(batch):
        strategy.run(lambda pixels: layer(pixels, training=True), args=(batch,))

    for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices([[0.0], [8.0]]).batch(2)):
        step(batch)
    return [statistics.numpy().item() for statistics in (layer.moving_mean, layer.moving_variance)]


found, right = moving(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])), moving(tf.distribute.get_strategy())
print("as it should be:" if found == right else "wrong:", f"{found} right: {right}")
