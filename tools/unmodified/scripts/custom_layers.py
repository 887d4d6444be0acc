"""A coarse custom loop without Keras: embeddings, a weight decay, and the norm of the reduced gradient."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
GLOBAL_BATCH = 6 * strategy.num_replicas_in_sync
ids = tf.random.stateless_uniform([72, 3], seed=[1, 2], maxval=20, dtype=tf.int32)
targets = tf.cast(tf.reduce_sum(ids, axis=1), tf.float32) / 30.0
dataset = tf.data.Dataset.from_tensor_slices((ids, targets)).batch(GLOBAL_BATCH)
with strategy.scope():
    table = tf.Variable(tf.random.stateless_normal([20, 4], seed=[3, 4]) * 0.1, name="table")
    head = tf.Variable(tf.random.stateless_normal([4], seed=[5, 6]), name="head")


def replica_step(ids, targets):
    with tf.GradientTape() as tape:
        embedded = tf.reduce_mean(tf.gather(table, ids), axis=1)
        errors = (tf.linalg.matvec(embedded, head) - targets) ** 2
        loss = tf.nn.compute_average_loss(errors, global_batch_size=GLOBAL_BATCH)
        loss += tf.nn.scale_regularization_loss(0.01 * tf.nn.l2_loss(head))
    gradients = tape.gradient(loss, [table, head])
    gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
    gradients = tf.distribute.get_replica_context().all_reduce("sum", gradients)
    for variable, gradient in zip([table, head], gradients):
        variable.assign_sub(0.5 * gradient)
    return loss


@tf.function
def train_step(batch):
    return strategy.reduce("SUM", strategy.run(replica_step, args=batch), axis=None)


for epoch in range(2):
    for batch in strategy.experimental_distribute_dataset(dataset):
        loss = train_step(batch)
    print(epoch, float(loss))
