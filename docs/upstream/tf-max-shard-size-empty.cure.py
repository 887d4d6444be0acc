"""By the default policy a tensor without elements is in the checkpoint."""

import tempfile

import tensorflow as tf

policy = tf.train.experimental.ShardByTaskPolicy()
options = tf.train.CheckpointOptions(experimental_sharding_callback=policy)
table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, default_value=-1)  # nothing is in it as yet
checkpoint = tf.train.Checkpoint(table=table, step=tf.Variable(7))
path = checkpoint.write(tempfile.mkdtemp() + "/saved", options=options)
checkpoint.step.assign(0)
try:
    checkpoint.read(path).assert_consumed()
    print("as it should be:" if checkpoint.step == 7 else "wrong:", int(checkpoint.step), "right: 7")
except tf.errors.NotFoundError as error:
    print("wrong:", error.message.split("}} ")[-1], "right: restored")
