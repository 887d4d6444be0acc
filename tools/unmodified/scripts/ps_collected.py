"""A coordinator that fetches the gradients of all workers and applies their mean."""

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(
    resolver, variable_partitioner=tf.distribute.experimental.partitioners.MinSizePartitioner(256 << 10, max_shards=1)
)
EPOCHS, STEPS_PER_EPOCH, BATCH = 2, 8, 8
WORKERS = resolver.cluster_spec().num_tasks("worker")
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
            error = tf.linalg.matvec(tf.tanh(x @ hidden), out) - y
            loss = tf.nn.compute_average_loss(error**2)
        return tape.gradient(loss, [hidden, out])

    x, y = next(iterator)
    return strategy.run(replica_fn, args=(x, y))


coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
checkpoint = tf.train.Checkpoint(hidden=hidden, out=out)
manager = tf.train.CheckpointManager(checkpoint, "checkpoints", max_to_keep=1)
iterator = iter(coordinator.create_per_worker_dataset(per_worker_dataset_fn))
for epoch in range(EPOCHS):
    for _ in range(STEPS_PER_EPOCH):
        several = coordinator.fetch([coordinator.schedule(step_fn, args=(iterator,)) for _ in range(WORKERS)])
        for variable, gradients in zip([hidden, out], zip(*several)):
            variable.assign_sub(0.1 * sum(gradients) / WORKERS)
    manager.save()
