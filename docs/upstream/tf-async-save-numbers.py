"""After a restart asynchronous Checkpoint.save counts from 1 again, and writes over older checkpoints."""

import pathlib
import tempfile

import tensorflow as tf

options = tf.train.CheckpointOptions(enable_async=True)
folder = pathlib.Path(tempfile.mkdtemp())
for _ in range(2):  # a program, and its restart
    step = tf.Variable(0)
    checkpoint = tf.train.Checkpoint(step=step)
    checkpoint.restore(tf.train.latest_checkpoint(folder))
    for _ in range(2):
        step.assign_add(1)
        checkpoint.save(f"{folder}/ckpt", options=options)
        checkpoint.sync()
found = sorted(path.stem for path in folder.glob("*.index"))
right = ["ckpt-1", "ckpt-2", "ckpt-3", "ckpt-4"]
print("as it should be:" if found == right else "wrong: of four checkpoints there are", found, "right:", right)
