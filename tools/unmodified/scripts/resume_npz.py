"""Variables that a script keeps in a file of NumPy's, with where it was."""

import os

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
GLOBAL_BATCH = 6 * strategy.num_replicas_in_sync
x = tf.random.stateless_normal([96, 4], seed=[1, 2])
y = tf.reduce_sum(x, axis=1) + 1.0
with strategy.scope():
    w = tf.Variable(tf.zeros([4]), name="w")
    v = tf.Variable(tf.zeros([4]), name="velocity", trainable=False)
done = 0
if os.path.exists("state.npz"):
    state = np.load("state.npz")
    w.assign(state["w"])
    v.assign(state["v"])
    done = int(state["done"])


@tf.function
def train_step(x, y):
    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(x, w) - y) ** 2) / GLOBAL_BATCH
        gradient = tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, w))
        v.assign(0.9 * v + gradient)
        w.assign_sub(0.02 * v)
        return loss

    return strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None)


dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(GLOBAL_BATCH).skip(done)
for number, batch in enumerate(strategy.experimental_distribute_dataset(dataset), start=done + 1):
    loss = train_step(*batch)
    if number % 3 == 0:
        np.savez("new.npz", w=w.numpy(), v=v.numpy(), done=number)
        os.replace("new.npz", "state.npz")
    print(number, float(loss))
