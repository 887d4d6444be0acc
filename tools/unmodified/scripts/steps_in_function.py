"""Several steps in one function, with gradients that are clipped after they were reduced."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
n = strategy.num_replicas_in_sync
GLOBAL_BATCH = 8 * n
xs = tf.random.stateless_normal([96, 6], seed=[1, 2])
ys = tf.reduce_sum(xs, axis=1, keepdims=True) * 3.0
dataset = tf.data.Dataset.from_tensor_slices((xs, ys)).repeat().batch(GLOBAL_BATCH)
iterator = iter(strategy.experimental_distribute_dataset(dataset))
with strategy.scope():
    kernel = tf.Variable(tf.random.stateless_normal([6, 1], seed=[3, 4]), name="kernel")
    bias = tf.Variable(tf.zeros([1]), name="bias")


def replica_step(batch):
    x, y = batch
    with tf.GradientTape() as tape:
        error = tf.reduce_sum((x @ kernel + bias - y) ** 2, axis=-1)
        loss = tf.reduce_mean(error) / n
    gradients = tape.gradient(loss, [kernel, bias])
    gradients = tf.distribute.get_replica_context().all_reduce("sum", gradients)
    gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
    kernel.assign_sub(0.05 * gradients[0])
    bias.assign_sub(0.05 * gradients[1])
    return loss


@tf.function
def train(iterator, steps):
    loss = 0.0
    for _ in tf.range(steps):
        loss = strategy.reduce("SUM", strategy.run(replica_step, args=(next(iterator),)), axis=None)
    return loss


for _ in range(4):
    print(float(train(iterator, tf.constant(5))))
