"""A coordinator whose variables are in shards on two parameter servers."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(
    resolver, variable_partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(num_shards=2)
)
EPOCHS, STEPS_PER_EPOCH, BATCH = 2, 8, 8
with strategy.scope():
    hidden = tf.Variable(tf.random.stateless_normal([4, 8], seed=[3, 4]), name="hidden")
    out = tf.Variable(tf.random.stateless_normal([8], seed=[5, 6]), name="out")


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
            error = tf.linalg.matvec(tf.tanh(x @ tf.convert_to_tensor(hidden)), tf.convert_to_tensor(out)) - y
            loss = tf.nn.compute_average_loss(error**2)
        gradients = tape.gradient(loss, [*hidden.variables, *out.variables])
        for variable, gradient in zip([*hidden.variables, *out.variables], gradients):
            variable.assign_sub(0.1 * gradient)
        return loss

    x, y = next(iterator)
    losses = strategy.run(replica_fn, args=(x, y))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
checkpoint = tf.train.Checkpoint(hidden=hidden, out=out)
manager = tf.train.CheckpointManager(checkpoint, "checkpoints", max_to_keep=1)
iterator = iter(coordinator.create_per_worker_dataset(per_worker_dataset_fn))
for epoch in range(EPOCHS):
    for _ in range(STEPS_PER_EPOCH):
        loss = coordinator.schedule(step_fn, args=(iterator,))
    coordinator.join()
    manager.save()
    print(f"epoch {epoch}: loss {loss.fetch():.4f}")
