"""Batches that each worker takes by its own number, and a mean that is reduced as one."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
workers = resolver.cluster_spec().num_tasks("worker")
strategy = tf.distribute.MultiWorkerMirroredStrategy()
x = tf.random.stateless_normal([48, 4], seed=[1, 2])
dataset = tf.data.Dataset.from_tensor_slices((x, tf.reduce_sum(x, axis=1))).shuffle(48, seed=9)
dataset = dataset.batch(6).shard(workers, resolver.task_id).prefetch(1)
with strategy.scope():
    w = tf.Variable(tf.zeros([4]), name="w")


@tf.function
def train_step(x, y):
    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.linalg.matvec(x, w) - y) ** 2)
        w.assign_sub(0.05 * tf.distribute.get_replica_context().all_reduce("mean", tape.gradient(loss, w)))
        return loss

    return strategy.reduce("MEAN", strategy.run(replica_step, args=(x, y)), axis=None)


for epoch in range(2):
    for x, y in dataset:
        print(epoch, float(train_step(x, y)))
