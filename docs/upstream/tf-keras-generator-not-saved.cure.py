"""The same with the generators of the layers in the checkpoint too."""

import pathlib
import tempfile

import tensorflow as tf
import tf_keras

path, images = pathlib.Path(tempfile.mkdtemp(), "state"), tf.random.uniform([8, 6, 6, 1])


def make():
    return tf_keras.Sequential([tf_keras.Input((6, 6, 1)), tf_keras.layers.RandomRotation(0.5, seed=1)])


model, restored = make(), make()
for one in model, restored:
    wrapped = [layer._random_generator for layer in one.layers if hasattr(layer, "_random_generator")]  # noqa: SLF001
    one.generators = [each._generator for each in wrapped]  # noqa: SLF001 - no public name leads there
first = model(images, training=True)
tf.train.Checkpoint(model=model).write(str(path))
tf.train.Checkpoint(model=restored).read(str(path))
again = bool(tf.reduce_all(restored(images, training=True) == first))
print("wrong:" if again else "as it should be:", "draws its first numbers again,", again, "right: False")
