"""Right and wrong: loops over examples, their order, groups of them, tables that are looked up."""

import tensorflow as tf
from plain_loops import BATCH, of_loss, program_of, trained


def errors(x, y, w, b):
    return tf.reduce_sum((x @ w + b - y) ** 2, axis=1)


@program_of
def on_gradients(strategy, record, change, *, errors=errors):
    """A right loss, whose gradients each replica changes before they are added up."""
    trained(strategy, record, lambda *given: tf.reduce_sum(errors(*given)) / BATCH, change=change)


def dense(gradients):
    """Without slices, which cannot be multiplied by a number."""
    return [tf.convert_to_tensor(each) for each in gradients]


@of_loss()
def train_mapped(x, y, w, b):
    """Right: each example by itself."""
    return tf.reduce_sum(tf.map_fn(lambda each: each**2, (x @ w + b - y)[:, 0])) / BATCH


@of_loss()
def train_vectorized(x, y, w, b):
    """Right: the same, at once."""

    def error(each):
        return tf.reduce_sum((tf.reduce_sum(each[0] * w[:, 0]) + b - each[1]) ** 2)

    return tf.reduce_sum(tf.vectorized_map(error, (x, y))) / BATCH


@of_loss()
def train_scanned(x, y, w, b):
    """A running mean over the replica's own examples."""
    return tf.reduce_sum(tf.scan(lambda before, each: 0.9 * before + 0.1 * each, errors(x, y, w, b))) / BATCH  # guilty


@of_loss()
def train_running_sum(x, y, w, b):
    """A running sum over the replica's own examples."""
    return tf.reduce_sum(tf.cumsum(errors(x, y, w, b))) / BATCH**2  # guilty


@of_loss()
def train_running_sum_of_features(x, y, w, b):
    """Right: along the features."""
    return tf.reduce_sum(errors(tf.cumsum(x, axis=1), y, w, b)) / BATCH


@of_loss()
def train_looped_rows(x, y, w, b):
    """As many rounds of a loop as the replica has examples."""
    rate = tf.constant(1.0)
    for _ in tf.range(tf.shape(x)[0]):
        rate = 0.9 * rate  # guilty
    return rate * tf.reduce_sum(errors(x, y, w, b)) / BATCH


@of_loss()
def train_looped(x, y, w, b):
    """Right: as many rounds for everybody, and linear in the sum."""
    total = tf.reduce_sum(errors(x, y, w, b)) / BATCH
    for _ in tf.range(3):
        total = 0.5 * total
    return total


@of_loss()
def train_place(x, y, w, b):
    """Weighted by the place in the replica's batch."""
    place = tf.cast(tf.range(tf.shape(x)[0]), tf.float32)
    return tf.reduce_sum(place * errors(x, y, w, b)) / BATCH  # guilty


@of_loss()
def train_sorted(x, y, w, b):
    """Weighted by the rank among the replica's examples."""
    best = tf.sort(errors(x, y, w, b))
    return tf.reduce_sum(best * tf.cast(tf.range(tf.shape(x)[0]), tf.float32)) / BATCH  # guilty


@of_loss()
def train_hardest(x, y, w, b):
    """The two worst examples of each replica."""
    worst, _ = tf.math.top_k(errors(x, y, w, b), 2)  # guilty
    return tf.reduce_sum(worst) / BATCH


@of_loss()
def train_largest_features(x, y, w, b):
    """Right: the two largest features of each example."""
    largest, _ = tf.math.top_k(x, 2)
    return tf.reduce_sum((largest @ w[:2] + b - y) ** 2) / BATCH


@of_loss()
def train_median(x, y, w, b):
    """Cut at the replica's own median."""
    found = errors(x, y, w, b)
    middle = tf.sort(found)[tf.shape(found)[0] // 2]  # guilty
    return tf.reduce_sum(tf.minimum(found, tf.stop_gradient(middle))) / BATCH


@of_loss()
def train_unique(x, y, w, b):
    """Divided by how many kinds of labels the replica has."""
    kinds, _ = tf.unique(tf.cast(tf.round(y[:, 0]), tf.int32))
    return tf.reduce_sum(errors(x, y, w, b)) / tf.cast(tf.size(kinds), tf.float32)  # guilty


@of_loss()
def train_segment_sum(x, y, w, b):
    """Right: sums of kinds of examples, each with its weight."""
    kind = tf.cast(y[:, 0] > 0.0, tf.int32)
    sums = tf.math.unsorted_segment_sum(errors(x, y, w, b), kind, 2)
    return tf.reduce_sum(sums * tf.constant([1.0, 3.0])) / BATCH


@of_loss()
def train_segment_mean(x, y, w, b):
    """Means of kinds of examples over the replica's own."""
    kind = tf.cast(y[:, 0] > 0.0, tf.int32)
    return tf.reduce_sum(tf.math.unsorted_segment_mean(errors(x, y, w, b), kind, 2)) / 2.0  # guilty


@of_loss()
def train_segment_square(x, y, w, b):
    """Squares of sums of kinds of examples."""
    kind = tf.cast(y[:, 0] > 0.0, tf.int32)
    sums = tf.math.unsorted_segment_sum(errors(x, y, w, b), kind, 2)
    return tf.reduce_sum(sums**2) / BATCH**2  # guilty


@of_loss()
def train_scattered(x, y, w, b):
    """Of each kind the last example of the replica counts."""
    kind = tf.cast(y > 0.0, tf.int32)
    held = tf.tensor_scatter_nd_update(tf.zeros(2), kind, errors(x, y, w, b))  # guilty
    return tf.reduce_sum(held) / 2.0


@of_loss()
def train_ragged(x, y, w, b):
    """A mean over what is left of the replica's rows, ragged."""
    kept = tf.ragged.boolean_mask(x * w[:, 0], x > 0.0)
    return tf.reduce_mean((kept.flat_values - b) ** 2)  # guilty


@of_loss()
def train_masked(x, y, w, b):
    """Right: what is left of the examples is added up."""
    return tf.reduce_sum(tf.boolean_mask(errors(x, y, w, b), y[:, 0] > 0.0)) / BATCH


@of_loss()
def train_masked_mean(x, y, w, b):
    """A mean over what is left of the replica's examples."""
    return tf.reduce_mean(tf.boolean_mask(errors(x, y, w, b), y[:, 0] > 0.0)) / 2.0  # guilty


@of_loss()
def train_weights_to_one(x, y, w, b):
    """Weights add up to one in each replica."""
    weights = tf.abs(y[:, 0])
    return tf.reduce_sum(weights / tf.reduce_sum(weights) * errors(x, y, w, b)) / 2.0  # guilty


@of_loss()
def train_softmax_weights(x, y, w, b):
    """A softmax over the replica's examples."""
    return tf.reduce_sum(tf.nn.softmax(y, axis=0)[:, 0] * errors(x, y, w, b)) / 2.0  # guilty


@of_loss()
def train_sparse(x, y, w, b):
    """Right: a sparse matrix for each replica's examples, multiplied."""
    kept = tf.sparse.from_dense(tf.where(x > 0.0, x, 0.0))
    return tf.reduce_sum((tf.sparse.sparse_dense_matmul(kept, w) + b - y) ** 2) / BATCH


@of_loss()
def train_sparse_mean(x, y, w, b):
    """A mean over what a replica's sparse matrix holds."""
    kept = tf.sparse.from_dense(tf.where(x > 0.0, x, 0.0))
    return tf.reduce_mean((tf.gather(w[:, 0], kept.indices[:, 1]) * kept.values - b) ** 2)  # guilty


@of_loss(change=dense)
def train_looked_up(x, y, w, b):
    """Right: rows of a table by what the examples have, with a combiner."""
    ids = tf.cast(x > 0.0, tf.int32) + tf.constant([0, 1, 1])
    combined = tf.reduce_mean(tf.nn.embedding_lookup(tf.convert_to_tensor(w), ids), axis=1)
    return tf.reduce_sum((combined + b - y) ** 2) / BATCH


@of_loss(change=dense)
def train_looked_up_sparse(x, y, w, b):
    """Right: the same, by sparse ids."""
    ids = tf.sparse.from_dense(tf.cast(x > 0.0, tf.int64) + tf.constant([1, 0, 1], tf.int64))
    combined = tf.nn.embedding_lookup_sparse(tf.convert_to_tensor(w), ids, None, combiner="mean")
    return tf.reduce_sum((combined + b - y) ** 2) / BATCH


@of_loss()
def train_reversed(x, y, w, b):
    """Mixed with the example at the other end of the replica's batch."""
    mixed = 0.7 * x + 0.3 * tf.reverse(x, axis=[0])  # guilty
    return tf.reduce_sum(errors(mixed, y, w, b)) / BATCH


@of_loss()
def train_neighbours(x, y, w, b):
    """Compared with the neighbour in the replica's batch."""
    found = x @ w + b
    return tf.reduce_sum((found - tf.roll(found, 1, axis=0) - y) ** 2) / BATCH  # guilty


@of_loss()
def train_repeated(x, y, w, b):
    """Right: every example twice."""
    return tf.reduce_sum(errors(tf.repeat(x, 2, axis=0), tf.repeat(y, 2, axis=0), w, b)) / (2 * BATCH)


@of_loss()
def train_regrouped(x, y, w, b):
    """Features of several examples come into one row."""
    turned = tf.reshape(tf.transpose(x), [-1, 3])  # guilty
    return tf.reduce_sum(errors(turned, y, w, b)) / BATCH


@of_loss()
def train_each_decides(x, y, w, b):
    """Each replica decides by its own examples."""
    factor = tf.cond(tf.reduce_any(x > 1.5), lambda: 0.5, lambda: 1.0)  # guilty
    return factor * tf.reduce_sum(errors(x, y, w, b)) / BATCH
