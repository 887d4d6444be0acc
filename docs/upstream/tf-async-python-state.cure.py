"""Kept in a variable, the position is that of the moment it was saved."""

import tempfile

import tensorflow as tf

checkpoint = tf.train.Checkpoint(position=tf.Variable(0), weights=tf.Variable(tf.zeros([1000, 1000])))
options = tf.train.CheckpointOptions(enable_async=True)
path = tempfile.mkdtemp() + "/saved"
for _ in range(2):
    checkpoint.position.assign(1)
    checkpoint.write(path, options=options)
    checkpoint.position.assign(2)  # training goes on
    checkpoint.sync()
tf.train.Checkpoint(position=(restored := tf.Variable(0))).read(path).expect_partial()
print("as it should be:" if restored == 1 else "wrong:", int(restored), "right: 1")
