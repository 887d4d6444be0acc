"""MaxShardSizePolicy leaves tensors without elements out of a checkpoint, which cannot be restored then."""

import tempfile

import tensorflow as tf

policy = tf.train.experimental.MaxShardSizePolicy(1_000_000)
options = tf.train.CheckpointOptions(experimental_sharding_callback=policy)
table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, default_value=-1)  # nothing is in it as yet
checkpoint = tf.train.Checkpoint(table=table, step=tf.Variable(7))
path = checkpoint.write(tempfile.mkdtemp() + "/saved", options=options)
try:
    checkpoint.read(path).assert_consumed()
    print("as it should be: restored")
except tf.errors.NotFoundError as error:
    print("wrong:", error.message.split("}} ")[-1], "right: restored")
