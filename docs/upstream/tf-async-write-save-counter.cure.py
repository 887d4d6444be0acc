"""`assert_existing_objects_matched` asks that all of the program's state was in the file, and lets the counter be."""

import tempfile

import tensorflow as tf

prefix = tempfile.mkdtemp() + "/saved"
checkpoint = tf.train.Checkpoint(value=tf.Variable(1.0))
for asynchronous in (False, True):
    options = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=asynchronous)
    checkpoint.write(prefix, options=options)
    checkpoint.sync()
    value = tf.Variable(2.0)
    tf.train.Checkpoint(value=value).read(prefix).assert_existing_objects_matched()
    print(
        "as it should be:" if value.numpy() == 1.0 else "wrong:", "asynchronous:", asynchronous, "value", value.numpy()
    )
missed = ""
try:
    tf.train.Checkpoint(value=value, more=tf.Variable(3.0)).read(prefix).assert_existing_objects_matched()
except AssertionError as error:
    missed = str(error)[:60]
print("as it should be:" if missed else "wrong:", "what is not in the file is missed:", missed)
