"""A job's program for the soak that trains with TensorFlow: a few steps of `MultiWorkerMirroredStrategy`."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    weights = tf.Variable(tf.ones(3))


@tf.function
def step(batch):
    """One step of gradient descent on all replicas."""

    def replica_step(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(batch, weights) - 1) ** 2)
        weights.assign_sub(0.01 * tape.gradient(loss, weights))
        return loss

    return strategy.reduce("SUM", strategy.run(replica_step, args=(batch,)), axis=None)


for number in range(4):
    step(tf.ones((4, 3)) * number)
