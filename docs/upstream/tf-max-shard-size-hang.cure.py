"""Shards of which each one has place for a row of the matrix."""

import multiprocessing
import tempfile


def save(size):
    import tensorflow as tf

    policy = tf.train.experimental.MaxShardSizePolicy(size)
    options = tf.train.CheckpointOptions(experimental_sharding_callback=policy)
    tf.train.Checkpoint(matrix=tf.Variable(tf.zeros([8, 8]))).write(tempfile.mkdtemp() + "/saved", options=options)


if __name__ == "__main__":
    saving = multiprocessing.Process(target=save, args=(64,))
    saving.start()
    saving.join(30)
    hangs = saving.is_alive()
    saving.kill()
    print("wrong: it does not end in 30 seconds" if hangs else "as it should be: it ends", "right: it ends")
