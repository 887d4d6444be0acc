"""A loop with checkpoints whose examples are drawn by NumPy, others after a restart than without one."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
GLOBAL_BATCH = 6 * strategy.num_replicas_in_sync
with strategy.scope():
    w = tf.Variable(tf.zeros([4]), name="w")
step = tf.Variable(0, dtype=tf.int64)
checkpoint = tf.train.Checkpoint(w=w, step=step)
manager = tf.train.CheckpointManager(checkpoint, "checkpoints", max_to_keep=1)
checkpoint.restore(manager.latest_checkpoint)


@tf.function
def train_step(x, y):
    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(x, w) - y) ** 2) / GLOBAL_BATCH
        w.assign_sub(0.05 * tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, w)))
        return loss

    return strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None)


def draw():
    while True:
        x = np.random.normal(size=[4]).astype("float32")
        yield x, x.sum()


kinds = (tf.TensorSpec([4], tf.float32), tf.TensorSpec([], tf.float32))
dataset = tf.data.Dataset.from_generator(draw, output_signature=kinds).batch(GLOBAL_BATCH)
batches = iter(strategy.experimental_distribute_dataset(dataset))
while step.numpy() < 8:
    loss = train_step(*next(batches))
    step.assign_add(1)
    manager.save()
    print(step.numpy(), float(loss))
