"""A script with a loop of its own, as people write them."""

from __future__ import annotations

from collections.abc import Callable

from harness import Verdict

# What the fixture `verified` of conftest.py is.
Verified = Callable[..., Verdict]

LOOP = """
import sys
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
BATCH = 4 * strategy.num_replicas_in_sync
x = tf.random.stateless_normal([24, 3], seed=[1, 2])
dataset = tf.data.Dataset.from_tensor_slices((x, tf.reduce_sum(x, axis=1))).batch(BATCH)
with strategy.scope():
    w = tf.Variable(tf.zeros([3]), name="w")

def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((tf.linalg.matvec(x, w) - y) ** 2) / BATCH
    gradient = tape.gradient(loss, w)
    w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("sum", gradient))
    return loss

@tf.function
def train(batch):
    return strategy.reduce("SUM", strategy.run(step, args=batch), axis=None)

for _ in range(int(sys.argv[1])):
    for batch in strategy.experimental_distribute_dataset(dataset):
        loss = train(batch)
open("left.txt", "w").write(str(float(loss)))
"""
