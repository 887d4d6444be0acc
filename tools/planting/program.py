"""A training with momentum, a dropout, moving statistics and a checkpoint; `PLANTED` has it do one thing wrong.

Who judges it runs it without that variable.
"""

from __future__ import annotations

import json
import os
import sys

import tensorflow as tf

KIND, REPLICAS, STEPS, ROWS, SAVE = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5:]
PLANTED = json.loads(os.environ.get("PLANTED", "{}"))
WIDE, RATE, SHARDS = 64, 0.01, 8

multi = KIND == "multi_worker"
devices = [f"CPU:{number}" for number in range(REPLICAS)]
strategy = tf.distribute.MultiWorkerMirroredStrategy() if multi else tf.distribute.MirroredStrategy(devices)
x = tf.random.stateless_normal([SHARDS * ROWS, WIDE], seed=[1, 2])
y = tf.reduce_mean(x, axis=1, keepdims=True)
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(ROWS).repeat()
iterator = iter(strategy.experimental_distribute_dataset(data))
with strategy.scope():
    first = tf.Variable(0.1 * tf.random.stateless_normal([WIDE, WIDE], seed=[3, 4]), name="first")
    last = tf.Variable(0.1 * tf.random.stateless_normal([WIDE, 1], seed=[5, 6]), name="last")
    weights = [first, last]
    slots = [tf.Variable(tf.zeros_like(weight), name="momentum") for weight in weights]
    mean = tf.Variable(tf.zeros([WIDE]), name="mean")
    done = tf.Variable(0, dtype=tf.int64, name="done")
checkpoint = tf.train.Checkpoint(first=first, last=last, slots=slots, mean=mean, done=done)


def step(rows: tf.Tensor, labels: tf.Tensor) -> None:
    """That of a replica. The rate is in its graph, since what a call is given is not judged."""
    context = tf.distribute.get_replica_context()
    with tf.GradientTape() as tape:
        hidden = tf.nn.relu(tf.matmul(rows - mean, first))
        found = tf.matmul(tf.nn.dropout(hidden, 0.1), last)
        loss = tf.reduce_sum((found - labels) ** 2) / ROWS
    parts = [*tape.gradient(loss, weights), tf.reduce_sum(rows, 0) / ROWS]
    *gradients, now = context.all_reduce("sum", parts)
    for weight, slot, gradient in zip(weights, slots, gradients, strict=True):
        slot.assign(0.9 * slot + gradient)
        weight.assign_sub(rates[-1] * slot)
    mean.assign(0.9 * mean + 0.1 * now)
    done.assign_add(1)


@tf.function
def train(batch: tuple[tf.Tensor, tf.Tensor], *, traced_again: bool) -> None:
    """One step of all replicas, in a graph of its own for each value."""
    strategy.run(step, args=batch)


place = "".join(SAVE[:1]) + str(multi and strategy.cluster_resolver.task_id)
if SAVE and os.path.exists(f"{place}.index"):  # noqa: PTH110 - a file of TensorFlow's
    checkpoint.read(place).assert_consumed()
    if PLANTED.get("kind") == "statistics":
        mean.assign(tf.zeros([WIDE]))
batch, rates = None, [RATE]
for number in range(1, STEPS + 1):
    if batch is None or not (PLANTED.get("kind") == "shard" and number == PLANTED["step"]):
        batch = next(iterator)
    if PLANTED.get("kind") == "rate" and number == PLANTED["step"]:
        rates.append(RATE / 2)
    train(batch, traced_again=len(rates) > 1)
    if SAVE[1:] == [str(number)]:
        checkpoint.write(place)
