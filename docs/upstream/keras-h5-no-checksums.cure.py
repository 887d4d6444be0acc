"""A checkpoint of TensorFlow has checksums: with zeros in the file, reading it raises."""

import pathlib
import tempfile

import keras
import tensorflow as tf

model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64)])
kernel = model.weights[0].numpy()
prefix = tf.train.Checkpoint(model=model).write(tempfile.mkdtemp() + "/model")
path = pathlib.Path(prefix + ".data-00000-of-00001")
content = path.read_bytes()
model.weights[0].assign(tf.zeros([64, 64]))
tf.train.Checkpoint(model=model).read(prefix).assert_consumed()
intact = bool((model.weights[0].numpy() == kernel).all())
place = content.index(kernel.tobytes()[:64])
path.write_bytes(content[:place] + bytes(64) + content[place + 64 :])
raised = ""
try:
    tf.train.Checkpoint(model=model).read(prefix)
except tf.errors.DataLossError as error:
    raised = error.message
found = intact and "Checksum does not match" in raised
print("as it should be:" if found else "wrong:", "what is damaged raises:", raised[-60:] or "no")
