"""A loop that runs eagerly, with a momentum of its own."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
replicas = strategy.num_replicas_in_sync
x = tf.random.stateless_normal([48, 4], seed=[1, 2])
y = tf.reduce_sum(x, axis=1)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(6 * replicas)
with strategy.scope():
    w = tf.Variable(tf.zeros([4]), name="w")
    velocity = tf.Variable(tf.zeros([4]), name="velocity", trainable=False)


def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((tf.linalg.matvec(x, w) - y) ** 2) / (6 * replicas)
    gradient = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tape.gradient(loss, w))
    velocity.assign(0.9 * velocity + gradient)
    w.assign_sub(0.05 * velocity)
    return loss


for epoch in range(2):
    for batch in strategy.experimental_distribute_dataset(dataset):
        losses = strategy.run(step, args=batch)
    print(epoch, float(strategy.reduce("SUM", losses, axis=None)))
