"""Keras 3's RandomElasticTransform makes all images of a batch whose size a graph does not know the first of them."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
layer = keras.layers.RandomElasticTransform(factor=(1.0, 1.0), scale=0.5, seed=1)
grey = 10.0 * tf.range(1.0, 9.0)  # an image of one colour has that colour when it is transformed
images = grey[:, None, None, None] * tf.ones([8, 8, 8, 3])


batches = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(images).batch(8))


@tf.function(input_signature=[batches.element_spec])
def transformed(batch):
    return strategy.run(lambda rows: tf.reduce_mean(layer(rows, training=True), [1, 2, 3]), (batch,))


found = tf.concat([strategy.experimental_local_results(transformed(batch)) for batch in batches], 0)
found = tf.reshape(found, [8])
others = int(tf.reduce_sum(tf.cast(tf.abs(found - grey) > 1.0, tf.int32)))
print("wrong:" if others else "as it should be:", f"{others} of 8 images are other ones, right: 0")
