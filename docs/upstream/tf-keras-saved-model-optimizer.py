"""A tf_keras model loaded from a SavedModel has a new optimizer: its state is lost, without a word."""

import tempfile

import tensorflow as tf
import tf_keras

path = tempfile.mkdtemp()
model = tf_keras.Sequential([tf_keras.Input((1,)), tf_keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(tf.ones([8, 1]), tf.ones([8, 1]), batch_size=4, verbose=0)
model.save(path, save_format="tf")
steps = int(tf_keras.models.load_model(path).optimizer.iterations.numpy())
print("as it should be:" if steps == 2 else "wrong:", "steps of the loaded optimizer", steps, "right: 2")
