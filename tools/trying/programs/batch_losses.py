"""Losses that compare the examples of a batch with each other, in custom loops: each replica sees its own only."""

import numpy as np
import tensorflow as tf

BATCH, STEPS, RATE = 12, 2, 0.2
SUM = tf.distribute.ReduceOp.SUM


def context():
    return tf.distribute.get_replica_context()


def dataset():
    random = np.random.default_rng(5)
    x = random.normal(size=(BATCH * STEPS, 5)).astype("float32")
    other = (x + 0.4 * random.normal(size=x.shape)).astype("float32")
    labels = random.integers(0, 3, size=BATCH * STEPS).astype("int32")
    return tf.data.Dataset.from_tensor_slices((x, other, labels)).batch(BATCH)


def projection(strategy, width=3):
    start = np.random.default_rng(6).normal(size=(5, width)).astype("float32")
    with strategy.scope():
        return tf.Variable(0.5 * start, name="projection", aggregation=tf.VariableAggregation.MEAN)


def train(strategy, record, w, loss_of):
    """Descend along the sum over replicas of what `loss_of` gives for a replica's examples."""

    def replica_step(x, other, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(x, other, labels)
        w.assign_sub(RATE * context().all_reduce(SUM, tape.gradient(loss, w)))
        return loss

    @tf.function
    def train_step(x, other, labels):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, other, labels)), axis=None)

    for batch in strategy.experimental_distribute_dataset(dataset()):
        record.step(loss=train_step(*batch), variables=[w])


# ---- wrong ----


def train_contrastive_local(strategy, record):
    """The negatives of an example are those of its replica."""
    w = projection(strategy)

    def loss_of(x, other, labels):
        one = tf.math.l2_normalize(x @ w, axis=1)
        two = tf.math.l2_normalize(other @ w, axis=1)
        logits = tf.matmul(one, two, transpose_b=True) / 0.5  # guilty
        targets = tf.range(tf.shape(logits)[0])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)  # guilty
        return tf.nn.compute_average_loss(losses, global_batch_size=BATCH)

    train(strategy, record, w, loss_of)


def train_correlation_of_all_in_each(strategy, record):
    """Redundancy is reduced of the batch's correlations, which each replica has whole."""
    w = projection(strategy)

    def loss_of(x, other, labels):
        correlation = tf.matmul(x @ w, other @ w, transpose_a=True) / BATCH
        correlation = context().all_reduce(SUM, correlation)
        return tf.reduce_sum((correlation - tf.eye(3)) ** 2)  # guilty

    train(strategy, record, w, loss_of)


def train_softmax_over_batch(strategy, record):
    """Attention of the examples of a batch, normalised over one replica's."""
    w = projection(strategy, 1)

    def loss_of(x, other, labels):
        attention = tf.nn.softmax(x @ w, axis=0)  # guilty
        target = tf.cast(labels, tf.float32)[:, None]
        return tf.reduce_sum(attention * target)

    train(strategy, record, w, loss_of)


def train_hard_examples_local(strategy, record):
    """The hardest of each replica instead of the hardest of the batch."""
    w = projection(strategy)

    def loss_of(x, other, labels):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x @ w)
        hardest, _ = tf.math.top_k(losses, k=4 // strategy.num_replicas_in_sync)  # guilty
        return tf.reduce_sum(hardest) / 4

    train(strategy, record, w, loss_of)


def train_temperature_local(strategy, record):
    """Logits are scaled by the largest of the replica's."""
    w = projection(strategy)

    def loss_of(x, other, labels):
        logits = x @ w
        logits = 3.0 * logits / tf.stop_gradient(tf.reduce_max(tf.abs(logits)))  # guilty
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return tf.nn.compute_average_loss(losses, global_batch_size=BATCH)

    train(strategy, record, w, loss_of)


def train_pairs_local(strategy, record):
    """A ranking loss over all pairs, of which those between replicas are missing."""
    w = projection(strategy, 1)

    def loss_of(x, other, labels):
        scores = (x @ w)[:, 0]
        difference = scores[:, None] - scores[None, :]  # guilty
        above = tf.cast(labels[:, None] > labels[None, :], tf.float32)
        return tf.reduce_sum(above * tf.nn.softplus(-difference)) / BATCH**2  # guilty

    train(strategy, record, w, loss_of)


def train_prototypes_local(strategy, record):
    """Examples are drawn to the mean of their replica's batch."""
    w = projection(strategy)

    def loss_of(x, other, labels):
        points = x @ w
        center = tf.reduce_mean(points, axis=0)  # guilty
        return tf.nn.compute_average_loss(tf.reduce_sum((points - center) ** 2, axis=1), global_batch_size=BATCH)

    train(strategy, record, w, loss_of)


def train_whitened_locally(strategy, record):
    """Decorrelation by the covariance of one replica's points."""
    w = projection(strategy)

    def loss_of(x, other, labels):
        points = x @ w
        covariance = tf.matmul(points, points, transpose_a=True) / BATCH
        return tf.reduce_sum((covariance - tf.eye(3)) ** 2)  # guilty

    train(strategy, record, w, loss_of)


def train_argmax_local(strategy, record):
    """Only the worst example of the batch counts: each replica takes its own worst, and half of it."""
    w = projection(strategy)

    def loss_of(x, other, labels):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x @ w)
        worst = tf.gather(losses, tf.argmax(losses))  # guilty
        return worst / strategy.num_replicas_in_sync

    train(strategy, record, w, loss_of)


def train_root_of_local_mean(strategy, record):
    """The root of a mean of squares, of each replica."""
    w = projection(strategy, 1)

    def loss_of(x, other, labels):
        error = (x @ w)[:, 0] - tf.cast(labels, tf.float32)
        rmse = tf.sqrt(tf.reduce_mean(error**2))  # guilty
        return rmse / strategy.num_replicas_in_sync

    train(strategy, record, w, loss_of)


def train_entropy_of_local_mean(strategy, record):
    """A bonus for using all classes in a batch: the entropy of a replica's mean prediction."""
    w = projection(strategy)

    def loss_of(x, other, labels):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x @ w)
        mean = tf.reduce_mean(tf.nn.softmax(x @ w), axis=0)  # guilty
        entropy = -tf.reduce_sum(mean * tf.math.log(mean)) / strategy.num_replicas_in_sync
        return tf.nn.compute_average_loss(losses, global_batch_size=BATCH) - 0.3 * entropy

    train(strategy, record, w, loss_of)


def train_ranks_local(strategy, record):
    """Examples are weighted by their rank, which is that in the replica."""
    w = projection(strategy)

    def loss_of(x, other, labels):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x @ w)
        ranks = tf.argsort(tf.argsort(losses))  # guilty
        weight = tf.cast(ranks + 1, tf.float32) / BATCH
        return tf.nn.compute_average_loss(weight * losses, global_batch_size=BATCH)

    train(strategy, record, w, loss_of)


# ---- right ----


def train_right_contrastive(strategy, record):
    """The negatives are gathered from all replicas, and the targets are shifted to the replica's place."""
    w = projection(strategy)

    def loss_of(x, other, labels):
        one = tf.math.l2_normalize(x @ w, axis=1)
        two = tf.math.l2_normalize(context().all_gather(other, axis=0) @ w, axis=1)
        logits = tf.matmul(one, two, transpose_b=True) / 0.5
        first = context().replica_id_in_sync_group * tf.shape(logits)[0]
        targets = first + tf.range(tf.shape(logits)[0])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
        return tf.nn.compute_average_loss(losses, global_batch_size=BATCH)

    train(strategy, record, w, loss_of)


def train_right_hard_examples(strategy, record):
    """Which are hardest is decided from the losses of all replicas."""
    w = projection(strategy)

    def loss_of(x, other, labels):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x @ w)
        everyone = context().all_gather(tf.stop_gradient(losses), axis=0)
        threshold = tf.reduce_min(tf.math.top_k(everyone, k=4).values)
        chosen = tf.cast(losses >= threshold, tf.float32)
        return tf.reduce_sum(chosen * losses) / 4

    train(strategy, record, w, loss_of)


def train_right_temperature(strategy, record):
    w = projection(strategy)

    def loss_of(x, other, labels):
        logits = x @ w
        largest = context().all_gather(tf.reduce_max(tf.abs(logits))[None], axis=0)
        logits = 3.0 * logits / tf.stop_gradient(tf.reduce_max(largest))
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return tf.nn.compute_average_loss(losses, global_batch_size=BATCH)

    train(strategy, record, w, loss_of)


def train_right_center(strategy, record):
    """The center is that of all examples; the points of a replica are drawn to it."""
    w = projection(strategy)

    def loss_of(x, other, labels):
        points = x @ w
        center = context().all_reduce(SUM, tf.reduce_sum(tf.stop_gradient(points), axis=0)) / BATCH
        return tf.nn.compute_average_loss(tf.reduce_sum((points - center) ** 2, axis=1), global_batch_size=BATCH)

    train(strategy, record, w, loss_of)


def train_right_softmax_over_classes(strategy, record):
    """Normalised over the classes of each example, which no replica shares."""
    w = projection(strategy)

    def loss_of(x, other, labels):
        probability = tf.nn.softmax(x @ w, axis=1)
        losses = -tf.math.log(tf.gather(probability, labels, batch_dims=1))
        return tf.nn.compute_average_loss(losses, global_batch_size=BATCH)

    train(strategy, record, w, loss_of)
