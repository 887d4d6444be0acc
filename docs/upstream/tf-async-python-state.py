"""An asynchronous checkpoint saves a PythonState as it is when it is written, not as it was when it was saved."""

import tempfile

import tensorflow as tf


class Position(tf.train.experimental.PythonState):
    value = 0

    def serialize(self):
        return str(self.value)

    def deserialize(self, text):
        self.value = int(text)


checkpoint = tf.train.Checkpoint(position=Position(), weights=tf.Variable(tf.zeros([1000, 1000])))
options = tf.train.CheckpointOptions(enable_async=True)
path = tempfile.mkdtemp() + "/saved"
for _ in range(2):
    checkpoint.position.value = 1
    checkpoint.write(path, options=options)
    checkpoint.position.value = 2  # training goes on
    checkpoint.sync()
tf.train.Checkpoint(position=(restored := Position())).read(path).expect_partial()
print("as it should be:" if restored.value == 1 else "wrong:", restored.value, "right: 1")
