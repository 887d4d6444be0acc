"""A save that is read back after `sync` is known to have failed; what the next one raises is the old error."""

import resource
import tempfile

import tensorflow as tf

checkpoint = tf.train.Checkpoint(weights=tf.Variable(tf.ones([10000])))
options = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=True)
manager = tf.train.CheckpointManager(checkpoint, tempfile.mkdtemp(), max_to_keep=2)


def saved():
    for _ in range(2):
        try:
            path = manager.save(options=options)  # raises what an earlier save should have raised
            checkpoint.sync()
            tf.train.load_checkpoint(path)
            return path
        except (tf.errors.OpError, ValueError) as error:
            print(type(error).__name__, str(error).splitlines()[0][:60])
    return None


_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, most))  # the disk is full
failed = saved() is None
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
made = saved()
tf.train.Checkpoint(weights=(weights := tf.Variable(tf.zeros([10000])))).read(made).expect_partial()
right = failed and made == tf.train.latest_checkpoint(manager.directory) and (weights.numpy() == 1.0).all()
print("as it should be:" if right else "wrong:", "the failed save is known, and the next one is there")
