"""Keras 3 keeps the scales of float8 training per replica: each one has those of its own examples."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, dtype=keras.DTypePolicy("float32"))])
    model.layers[0].quantize("float8")
    model.compile(keras.optimizers.SGD(0.0), "mse")
examples = tf.constant([[1.0], [2.0], [3.0], [4.0]])
model.fit(examples, examples, batch_size=4, epochs=2, shuffle=False, verbose=0)
largest = [float(tf.reduce_max(copy)) for copy in model.layers[0].inputs_amax_history.value.values]
print("as it should be:" if largest == [4.0, 4.0] else "wrong:", "largest inputs", largest, "right: [4.0, 4.0]")
