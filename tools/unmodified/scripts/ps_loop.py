"""As in TensorFlow's tutorial "Parameter server training": a custom loop with a coordinator."""

import os

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    os.environ["GRPC_FAIL_FAST"] = "use_caller"
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc", start=True
    )
    server.join()

strategy = tf.distribute.ParameterServerStrategy(
    resolver, variable_partitioner=tf.distribute.experimental.partitioners.MinSizePartitioner(256 << 10, max_shards=1)
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
            error = tf.linalg.matvec(tf.tanh(x @ hidden), out) - y
            loss = tf.nn.compute_average_loss(error**2)
        gradients = tape.gradient(loss, [hidden, out])
        hidden.assign_sub(0.1 * gradients[0])
        out.assign_sub(0.1 * gradients[1])
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
