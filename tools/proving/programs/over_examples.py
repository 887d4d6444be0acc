"""Right and wrong: loops over examples, their order, groups of them, tables that are looked up."""

import tensorflow as tf
from plain_loops import BATCH, trained


def errors(x, y, w, b):
    return tf.reduce_sum((x @ w + b - y) ** 2, axis=1)


def dense(gradients):
    """Without slices, which cannot be multiplied by a number."""
    return [tf.convert_to_tensor(each) for each in gradients]


def train_mapped(strategy, record):
    """Right: each example by itself."""

    def loss_of(x, y, w, b):
        return tf.reduce_sum(tf.map_fn(lambda each: each**2, (x @ w + b - y)[:, 0])) / BATCH

    trained(strategy, record, loss_of)


def train_vectorized(strategy, record):
    def loss_of(x, y, w, b):
        def error(each):
            return tf.reduce_sum((tf.reduce_sum(each[0] * w[:, 0]) + b - each[1]) ** 2)

        return tf.reduce_sum(tf.vectorized_map(error, (x, y))) / BATCH

    trained(strategy, record, loss_of)


def train_scanned(strategy, record):
    """A running mean over the replica's own examples."""

    def loss_of(x, y, w, b):
        return (
            tf.reduce_sum(tf.scan(lambda before, each: 0.9 * before + 0.1 * each, errors(x, y, w, b))) / BATCH
        )  # guilty

    trained(strategy, record, loss_of)


def train_running_sum(strategy, record):
    def loss_of(x, y, w, b):
        return tf.reduce_sum(tf.cumsum(errors(x, y, w, b))) / BATCH**2  # guilty

    trained(strategy, record, loss_of)


def train_running_sum_of_features(strategy, record):
    """Right: along the features."""

    def loss_of(x, y, w, b):
        return tf.reduce_sum(errors(tf.cumsum(x, axis=1), y, w, b)) / BATCH

    trained(strategy, record, loss_of)


def train_looped_rows(strategy, record):
    """As many rounds as the replica has examples."""

    def loss_of(x, y, w, b):
        rate = tf.constant(1.0)
        for _ in tf.range(tf.shape(x)[0]):
            rate = 0.9 * rate  # guilty
        return rate * tf.reduce_sum(errors(x, y, w, b)) / BATCH

    trained(strategy, record, loss_of)


def train_looped(strategy, record):
    """Right: as many rounds for everybody, and linear in the sum."""

    def loss_of(x, y, w, b):
        total = tf.reduce_sum(errors(x, y, w, b)) / BATCH
        for _ in tf.range(3):
            total = 0.5 * total
        return total

    trained(strategy, record, loss_of)


def train_place(strategy, record):
    """Weighted by the place in the replica's batch."""

    def loss_of(x, y, w, b):
        place = tf.cast(tf.range(tf.shape(x)[0]), tf.float32)
        return tf.reduce_sum(place * errors(x, y, w, b)) / BATCH  # guilty

    trained(strategy, record, loss_of)


def train_sorted(strategy, record):
    def loss_of(x, y, w, b):
        best = tf.sort(errors(x, y, w, b))
        return tf.reduce_sum(best * tf.cast(tf.range(tf.shape(x)[0]), tf.float32)) / BATCH  # guilty

    trained(strategy, record, loss_of)


def train_hardest(strategy, record):
    """The two worst of each replica."""

    def loss_of(x, y, w, b):
        worst, _ = tf.math.top_k(errors(x, y, w, b), 2)  # guilty
        return tf.reduce_sum(worst) / BATCH

    trained(strategy, record, loss_of)


def train_largest_features(strategy, record):
    """Right: the two largest features of each example."""

    def loss_of(x, y, w, b):
        largest, _ = tf.math.top_k(x, 2)
        return tf.reduce_sum((largest @ w[:2] + b - y) ** 2) / BATCH

    trained(strategy, record, loss_of)


def train_median(strategy, record):
    def loss_of(x, y, w, b):
        found = errors(x, y, w, b)
        middle = tf.sort(found)[tf.shape(found)[0] // 2]  # guilty
        return tf.reduce_sum(tf.minimum(found, tf.stop_gradient(middle))) / BATCH

    trained(strategy, record, loss_of)


def train_unique(strategy, record):
    """Divided by how many kinds of labels the replica has."""

    def loss_of(x, y, w, b):
        kinds, _ = tf.unique(tf.cast(tf.round(y[:, 0]), tf.int32))
        return tf.reduce_sum(errors(x, y, w, b)) / tf.cast(tf.size(kinds), tf.float32)  # guilty

    trained(strategy, record, loss_of)


def train_segment_sum(strategy, record):
    """Right: sums of kinds of examples, each with its weight."""

    def loss_of(x, y, w, b):
        kind = tf.cast(y[:, 0] > 0.0, tf.int32)
        sums = tf.math.unsorted_segment_sum(errors(x, y, w, b), kind, 2)
        return tf.reduce_sum(sums * tf.constant([1.0, 3.0])) / BATCH

    trained(strategy, record, loss_of)


def train_segment_mean(strategy, record):
    """Each kind's mean is over the replica's examples of it."""

    def loss_of(x, y, w, b):
        kind = tf.cast(y[:, 0] > 0.0, tf.int32)
        return tf.reduce_sum(tf.math.unsorted_segment_mean(errors(x, y, w, b), kind, 2)) / 2.0  # guilty

    trained(strategy, record, loss_of)


def train_segment_square(strategy, record):
    def loss_of(x, y, w, b):
        kind = tf.cast(y[:, 0] > 0.0, tf.int32)
        sums = tf.math.unsorted_segment_sum(errors(x, y, w, b), kind, 2)
        return tf.reduce_sum(sums**2) / BATCH**2  # guilty

    trained(strategy, record, loss_of)


def train_scattered(strategy, record):
    """The last example of a kind counts, of each replica's."""

    def loss_of(x, y, w, b):
        kind = tf.cast(y > 0.0, tf.int32)
        held = tf.tensor_scatter_nd_update(tf.zeros(2), kind, errors(x, y, w, b))  # guilty
        return tf.reduce_sum(held) / 2.0

    trained(strategy, record, loss_of)


def train_ragged(strategy, record):
    """Rows of other lengths are averaged over all elements of the replica."""

    def loss_of(x, y, w, b):
        kept = tf.ragged.boolean_mask(x * w[:, 0], x > 0.0)
        return tf.reduce_mean((kept.flat_values - b) ** 2)  # guilty

    trained(strategy, record, loss_of)


def train_masked(strategy, record):
    """Right: what is left of the examples is added up."""

    def loss_of(x, y, w, b):
        return tf.reduce_sum(tf.boolean_mask(errors(x, y, w, b), y[:, 0] > 0.0)) / BATCH

    trained(strategy, record, loss_of)


def train_masked_mean(strategy, record):
    def loss_of(x, y, w, b):
        return tf.reduce_mean(tf.boolean_mask(errors(x, y, w, b), y[:, 0] > 0.0)) / 2.0  # guilty

    trained(strategy, record, loss_of)


def train_weights_to_one(strategy, record):
    """Weights of examples that add up to one in each replica."""

    def loss_of(x, y, w, b):
        weights = tf.abs(y[:, 0])
        return tf.reduce_sum(weights / tf.reduce_sum(weights) * errors(x, y, w, b)) / 2.0  # guilty

    trained(strategy, record, loss_of)


def train_softmax_weights(strategy, record):
    def loss_of(x, y, w, b):
        return tf.reduce_sum(tf.nn.softmax(y, axis=0)[:, 0] * errors(x, y, w, b)) / 2.0  # guilty

    trained(strategy, record, loss_of)


def train_sparse(strategy, record):
    """Right: a sparse matrix for each replica's examples, multiplied."""

    def loss_of(x, y, w, b):
        kept = tf.sparse.from_dense(tf.where(x > 0.0, x, 0.0))
        return tf.reduce_sum((tf.sparse.sparse_dense_matmul(kept, w) + b - y) ** 2) / BATCH

    trained(strategy, record, loss_of)


def train_sparse_mean(strategy, record):
    def loss_of(x, y, w, b):
        kept = tf.sparse.from_dense(tf.where(x > 0.0, x, 0.0))
        return tf.reduce_mean((tf.gather(w[:, 0], kept.indices[:, 1]) * kept.values - b) ** 2)  # guilty

    trained(strategy, record, loss_of)


def train_looked_up(strategy, record):
    """Right: rows of a table by what the examples have, with a combiner."""

    def loss_of(x, y, w, b):
        ids = tf.cast(x > 0.0, tf.int32) + tf.constant([0, 1, 1])
        combined = tf.reduce_mean(tf.nn.embedding_lookup(tf.convert_to_tensor(w), ids), axis=1)
        return tf.reduce_sum((combined + b - y) ** 2) / BATCH

    trained(strategy, record, loss_of, change=dense)


def train_looked_up_sparse(strategy, record):
    """Right: the same, by sparse ids."""

    def loss_of(x, y, w, b):
        ids = tf.sparse.from_dense(tf.cast(x > 0.0, tf.int64) + tf.constant([1, 0, 1], tf.int64))
        combined = tf.nn.embedding_lookup_sparse(tf.convert_to_tensor(w), ids, None, combiner="mean")
        return tf.reduce_sum((combined + b - y) ** 2) / BATCH

    trained(strategy, record, loss_of, change=dense)


def train_reversed(strategy, record):
    """Mixed with the example at the other end of the replica's batch."""

    def loss_of(x, y, w, b):
        mixed = 0.7 * x + 0.3 * tf.reverse(x, axis=[0])  # guilty
        return tf.reduce_sum(errors(mixed, y, w, b)) / BATCH

    trained(strategy, record, loss_of)


def train_neighbours(strategy, record):
    """Compared with the example before it."""

    def loss_of(x, y, w, b):
        found = x @ w + b
        return tf.reduce_sum((found - tf.roll(found, 1, axis=0) - y) ** 2) / BATCH  # guilty

    trained(strategy, record, loss_of)


def train_repeated(strategy, record):
    """Right: every example twice."""

    def loss_of(x, y, w, b):
        return tf.reduce_sum(errors(tf.repeat(x, 2, axis=0), tf.repeat(y, 2, axis=0), w, b)) / (2 * BATCH)

    trained(strategy, record, loss_of)


def train_regrouped(strategy, record):
    """Features of neighbouring examples in one row, by another shape."""

    def loss_of(x, y, w, b):
        turned = tf.reshape(tf.transpose(x), [-1, 3])  # guilty
        return tf.reduce_sum(errors(turned, y, w, b)) / BATCH

    trained(strategy, record, loss_of)


def train_each_decides(strategy, record):
    """By whether one of the replica's examples is large."""

    def loss_of(x, y, w, b):
        factor = tf.cond(tf.reduce_any(x > 1.5), lambda: 0.5, lambda: 1.0)  # guilty
        return factor * tf.reduce_sum(errors(x, y, w, b)) / BATCH

    trained(strategy, record, loss_of)
