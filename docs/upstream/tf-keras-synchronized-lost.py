"""tf_keras BatchNormalization(synchronized=True) does not synchronize any more in a model that was loaded or cloned."""

import tensorflow as tf
import tf_keras

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    layer = tf_keras.layers.BatchNormalization(momentum=0.0, synchronized=True)
    model = tf_keras.models.clone_model(tf_keras.Sequential([tf_keras.Input((1,)), layer]))
    model.compile("sgd", "mse")
examples = tf.constant([[0.0], [0.0], [2.0], [2.0]])
model.fit(examples, examples, batch_size=4, shuffle=False, verbose=0)
variance = model.layers[0].moving_variance.numpy().item()
print("as it should be:" if variance == 1.0 else "wrong:", "variance of the batch", variance, "right: 1.0")
