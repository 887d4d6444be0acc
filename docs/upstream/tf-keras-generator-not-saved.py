"""A checkpoint of a tf_keras model has not the state of its random layers: restored ones draw their first numbers."""

import pathlib
import tempfile

import tensorflow as tf
import tf_keras

path, images = pathlib.Path(tempfile.mkdtemp(), "state"), tf.random.uniform([8, 6, 6, 1])


def make():
    return tf_keras.Sequential([tf_keras.Input((6, 6, 1)), tf_keras.layers.RandomRotation(0.5, seed=1)])


model, restored = make(), make()
first = model(images, training=True)
tf.train.Checkpoint(model=model).write(str(path))
tf.train.Checkpoint(model=restored).read(str(path))
again = bool(tf.reduce_all(restored(images, training=True) == first))
print("wrong:" if again else "as it should be:", "draws its first numbers again,", again, "right: False")
