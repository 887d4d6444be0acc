"""Verify a custom training loop, right and wrong: `python examples/verify_custom_loop.py`."""

from harness import verify

GLOBAL_BATCH = 32


def train(strategy, record, *, average="global"):
    """Linear regression, written as the tutorial "Custom training with tf.distribute.Strategy" writes it."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    features = rng.normal(size=(128, 4)).astype("float32")
    targets = features @ np.array([[1.0], [-2.0], [3.0], [0.5]], "float32")
    dataset = tf.data.Dataset.from_tensor_slices((np.arange(128), features, targets)).batch(GLOBAL_BATCH)
    distributed = strategy.experimental_distribute_dataset(dataset)

    with strategy.scope():
        weights = tf.Variable(tf.zeros([4, 1]), name="weights", aggregation=tf.VariableAggregation.SUM)

    def replica_step(ids, x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ weights - y) ** 2, axis=1)
            if average == "global":
                loss = tf.nn.compute_average_loss(per_example, global_batch_size=GLOBAL_BATCH)
            else:  # the mistake: a mean over this replica's examples only
                loss = tf.reduce_mean(per_example)
        gradient = tape.gradient(loss, weights)
        weights.assign_sub(0.1 * gradient)  # SUM: every replica's part is subtracted
        return loss, gradient, ids

    @tf.function
    def train_step(batch):
        losses, gradients, ids = strategy.run(replica_step, args=batch)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None), gradients, ids

    for batch in distributed:
        loss, gradients, ids = train_step(batch)
        record.step(loss=loss, gradients={"weights": gradients}, variables=[weights], examples=ids)
    record.final(variables=[weights])


def train_wrong(strategy, record):
    """The same, with a mean on each replica and a sum over replicas."""
    train(strategy, record, average="replica")


if __name__ == "__main__":
    print(verify(train, "mirrored-2"))
    print(verify(train, "multi_worker-2"))
    print(verify(train_wrong, "mirrored-2"))
