"""Keras 3 fit trains with R times the gradient, and reports R times the loss, of a model's own compute_loss."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


class Model(keras.Model):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return keras.ops.mean((y_pred - y) ** 2)


with strategy.scope():
    entry = keras.Input((1,))
    model = Model(entry, keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")(entry))
    model.compile(keras.optimizers.SGD(0.125))
model.fit(tf.ones([4, 1]), tf.ones([4, 1]), batch_size=4, verbose=0)
weight = model.get_weights()[0].item()
print("as it should be:" if weight == 0.25 else "wrong:", "weight", weight, "right: 0.25")
