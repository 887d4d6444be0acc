"""A CheckpointManager writes each state to a path of its own, and names it when it is whole: a crash leaves the one
before. Here the files are those that a crash between the data and the index of the second one leaves.
"""

import pathlib
import tempfile

import tensorflow as tf

folder = pathlib.Path(tempfile.mkdtemp())
weights = tf.Variable(tf.ones([100]))
checkpoint = tf.train.Checkpoint(weights=weights)
manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
manager.save()
named = (folder / "checkpoint").read_bytes()
weights.assign(tf.zeros([100]))
manager.save()
(folder / "ckpt-2.index").unlink()
(folder / "checkpoint").write_bytes(named)
checkpoint.read(tf.train.latest_checkpoint(folder)).expect_partial()
right = (folder / "ckpt-2.data-00000-of-00001").exists() and (weights.numpy() == 1.0).all()
print("as it should be:" if right else "wrong:", "the old state is restored")
