"""A coordinator that saves after each epoch, momentum too, and goes on where it had saved after a task was lost."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(
    resolver, variable_partitioner=tf.distribute.experimental.partitioners.MinSizePartitioner(256 << 10, max_shards=1)
)
EPOCHS, STEPS_PER_EPOCH, BATCH = 3, 8, 8
with strategy.scope():
    hidden = tf.Variable(tf.random.stateless_normal([4, 8], seed=[3, 4]), name="hidden")
    out = tf.Variable(tf.random.stateless_normal([8], seed=[5, 6]), name="out")
    velocity = tf.Variable(tf.zeros([8]), trainable=False, name="velocity")


def dataset_fn():
    x = tf.random.stateless_normal([32, 4], seed=[1, 2])
    dataset = tf.data.Dataset.from_tensor_slices((x, tf.reduce_sum(x, axis=1)))
    return dataset.shuffle(32, seed=7).repeat().batch(BATCH)


@tf.function
def per_worker_dataset_fn():
    return strategy.distribute_datasets_from_function(lambda context: dataset_fn())


@tf.function
def step_fn(iterator):
    def replica_fn(x, y):
        with tf.GradientTape() as tape:
            error = tf.linalg.matvec(tf.tanh(x @ hidden), out) - y
            loss = tf.nn.compute_average_loss(error**2)
        gradients = tape.gradient(loss, [hidden, out])
        hidden.assign_sub(0.1 * gradients[0])
        out.assign_sub(0.1 * velocity.assign(0.9 * velocity + gradients[1]))
        return loss

    x, y = next(iterator)
    losses = strategy.run(replica_fn, args=(x, y))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
epoch = tf.Variable(0, dtype=tf.int64, trainable=False, name="epoch")
checkpoint = tf.train.Checkpoint(hidden=hidden, out=out, velocity=velocity, epoch=epoch)
manager = tf.train.CheckpointManager(checkpoint, "checkpoints", max_to_keep=2)
checkpoint.restore(manager.latest_checkpoint)
iterator = iter(coordinator.create_per_worker_dataset(per_worker_dataset_fn))
while epoch < EPOCHS:
    for _ in range(STEPS_PER_EPOCH):
        loss = coordinator.schedule(step_fn, args=(iterator,))
    coordinator.join()
    print(f"epoch {int(epoch)}: loss {loss.fetch():.4f}")
    epoch.assign_add(1)
    manager.save()
