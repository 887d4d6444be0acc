"""An asynchronous checkpoint reads variables made after its first save when it writes them, not when it is saved."""

import tempfile

import tensorflow as tf

options = tf.train.CheckpointOptions(enable_async=True)
folder = tempfile.mkdtemp()
weight = tf.Variable(1.0)
optimizer = tf.compat.v1.train.AdamOptimizer(0.1)
checkpoint = tf.train.Checkpoint(weight=weight, optimizer=optimizer)
checkpoint.write(folder + "/at-first", options=options)
torn = []
for step in range(1, 101):
    optimizer.minimize(lambda: weight, var_list=[weight])  # the first step makes the optimizer's variables
    path = checkpoint.write(f"{folder}/{step}", options=options)
    right = [variable.numpy() for variable in optimizer.variables()]
    optimizer.minimize(lambda: weight, var_list=[weight])
    checkpoint.sync()
    tf.train.Checkpoint(weight=weight, optimizer=optimizer).read(path)
    if [variable.numpy() for variable in optimizer.variables()] != right:
        torn.append(step)
print("wrong:" if torn else "as it should be:", f"{len(torn)} of 100 checkpoints have a later optimizer, right: 0")
