"""Keras 3 predict raises where replicas pad to other lengths, such as those of TextVectorization."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    texts = keras.Input((1,), dtype="string")
    model = keras.Model(texts, keras.layers.TextVectorization(vocabulary=["a", "b", "c"])(texts))
try:
    found = model.predict(tf.constant([["a"], ["b"], ["a b"], ["c"]]), verbose=0).tolist()
except tf.errors.InvalidArgumentError as error:
    found = next(line for line in str(error).splitlines() if "ConcatOp" in line)
right = [[2, 0], [3, 0], [2, 3], [4, 0]]
print("as it should be:" if found == right else "wrong:", found, "right:", right)
