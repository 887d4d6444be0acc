"""Losses with weights and masks, whose sums each replica knows in part only: with Keras 3 and by hand."""

import numpy as np
import tensorflow as tf

BATCH, STEPS, LENGTH = 8, 3, 6
SUM = tf.distribute.ReduceOp.SUM


def context():
    return tf.distribute.get_replica_context()


def sentences():
    """Tokens of sentences that get longer, padded with zeros; the next token is to be predicted."""
    random = np.random.default_rng(8)
    tokens = random.integers(1, 9, size=(BATCH * STEPS, LENGTH + 1))
    lengths = 1 + (np.arange(BATCH * STEPS) * 5 // (BATCH - 1)) % LENGTH
    tokens[np.arange(LENGTH + 1)[None, :] > lengths[:, None]] = 0
    return tf.data.Dataset.from_tensor_slices(tokens.astype("int32")).batch(BATCH)


def language_model(strategy):
    with strategy.scope():
        start = np.random.default_rng(9).normal(size=(9, 9)).astype("float32")
        return tf.Variable(0.3 * start, name="bigrams", aggregation=tf.VariableAggregation.SUM)


def language_loop(strategy, record, table, loss_of):
    """Each replica subtracts its part of the gradient, and the table sums them."""

    def replica_step(tokens):
        with tf.GradientTape() as tape:
            logits = tf.gather(table, tokens[:, :-1])
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tokens[:, 1:], logits=logits)
            loss = loss_of(losses, tf.cast(tokens[:, 1:] > 0, tf.float32))
        table.assign_sub(0.5 * tf.convert_to_tensor(tape.gradient(loss, table)))
        return loss

    @tf.function
    def train_step(tokens):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(tokens,)), axis=None)

    for tokens in strategy.experimental_distribute_dataset(sentences()):
        record.step(loss=train_step(tokens), variables=[table])


def records():
    random = np.random.default_rng(10)
    x = random.normal(size=(BATCH * STEPS, 4)).astype("float32")
    labels = (random.random(BATCH * STEPS) < np.linspace(0.1, 0.9, BATCH * STEPS)).astype("int32")
    weights = random.uniform(0.1, 3.0, size=BATCH * STEPS).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, labels, weights)).batch(BATCH)


def classifier_loop(strategy, record, loss_of):
    import keras

    with strategy.scope():
        start = keras.initializers.GlorotUniform(seed=3)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, kernel_initializer=start)])
        optimizer = keras.optimizers.SGD(0.2)
        optimizer.build(model.trainable_variables)

    def replica_step(x, labels, weights):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=model(x, training=True))
            loss = loss_of(losses, labels, weights)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    @tf.function
    def train_step(batch):
        return strategy.reduce(SUM, strategy.run(replica_step, args=batch), axis=None)

    for batch in strategy.experimental_distribute_dataset(records()):
        record.step(loss=train_step(batch), variables=model.variables)


# ---- wrong ----


def train_padding_counted_locally(strategy, record):
    """A mean over the tokens of each replica, whose numbers of tokens differ."""
    table = language_model(strategy)

    def loss_of(losses, mask):
        mean = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)  # guilty
        return mean / strategy.num_replicas_in_sync

    language_loop(strategy, record, table, loss_of)


def train_padding_per_sentence_batch(strategy, record):
    """Tokens are counted as if each replica had the whole batch's share of the longest sentence."""
    table = language_model(strategy)

    def loss_of(losses, mask):
        longest = tf.reduce_max(tf.reduce_sum(mask, axis=1))  # guilty
        return tf.reduce_sum(losses * mask) / (BATCH * longest)

    language_loop(strategy, record, table, loss_of)


def train_boolean_mask_mean(strategy, record):
    table = language_model(strategy)

    def loss_of(losses, mask):
        kept = tf.boolean_mask(losses, mask > 0)
        return tf.reduce_mean(kept) / strategy.num_replicas_in_sync  # guilty

    language_loop(strategy, record, table, loss_of)


def train_sample_weights_local(strategy, record):
    def loss_of(losses, labels, weights):
        normalised = weights / tf.reduce_sum(weights)  # guilty
        return tf.reduce_sum(normalised * losses) / strategy.num_replicas_in_sync

    classifier_loop(strategy, record, loss_of)


def train_class_weights_local(strategy, record):
    """Rare classes count more, by how rare they are in the replica."""

    def loss_of(losses, labels, weights):
        positives = tf.reduce_mean(tf.cast(labels, tf.float32))  # guilty
        balance = tf.where(labels == 1, 1.0 - positives, 0.5 + positives)
        return tf.nn.compute_average_loss(balance * losses, global_batch_size=BATCH)

    classifier_loop(strategy, record, loss_of)


def train_weights_by_local_maximum(strategy, record):
    def loss_of(losses, labels, weights):
        scaled = weights / tf.reduce_max(weights)  # guilty
        return tf.nn.compute_average_loss(losses, sample_weight=scaled, global_batch_size=BATCH)

    classifier_loop(strategy, record, loss_of)


def train_focal_by_local_mean(strategy, record):
    """Examples count by how much their loss exceeds the mean loss, which is the replica's."""

    def loss_of(losses, labels, weights):
        relative = tf.stop_gradient(losses / tf.reduce_mean(losses))  # guilty
        return tf.nn.compute_average_loss(relative * losses, global_batch_size=BATCH)

    classifier_loop(strategy, record, loss_of)


# ---- right ----


def train_right_padding(strategy, record):
    table = language_model(strategy)

    def loss_of(losses, mask):
        tokens = context().all_reduce(SUM, tf.reduce_sum(mask))
        return tf.reduce_sum(losses * mask) / tokens

    language_loop(strategy, record, table, loss_of)


def train_right_padding_fixed(strategy, record):
    """Divided by all places, padded or not: a number that does not depend on the data."""
    table = language_model(strategy)

    def loss_of(losses, mask):
        return tf.reduce_sum(losses * mask) / (BATCH * LENGTH)

    language_loop(strategy, record, table, loss_of)


def train_right_padding_per_sentence(strategy, record):
    """A mean over the tokens of each sentence, which no replica shares, and then over the sentences."""
    table = language_model(strategy)

    def loss_of(losses, mask):
        per_sentence = tf.reduce_sum(losses * mask, axis=1) / tf.reduce_sum(mask, axis=1)
        return tf.nn.compute_average_loss(per_sentence, global_batch_size=BATCH)

    language_loop(strategy, record, table, loss_of)


def train_right_sample_weights(strategy, record):
    def loss_of(losses, labels, weights):
        total = context().all_reduce(SUM, tf.reduce_sum(weights))
        return tf.reduce_sum(weights * losses) / total

    classifier_loop(strategy, record, loss_of)


def train_right_class_weights(strategy, record):
    def loss_of(losses, labels, weights):
        positives = context().all_reduce(SUM, tf.reduce_sum(tf.cast(labels, tf.float32))) / BATCH
        balance = tf.where(labels == 1, 1.0 - positives, 0.5 + positives)
        return tf.nn.compute_average_loss(balance * losses, global_batch_size=BATCH)

    classifier_loop(strategy, record, loss_of)


def train_right_fixed_weights(strategy, record):
    """Weights are used as they are: nothing has to be known of the others."""

    def loss_of(losses, labels, weights):
        return tf.nn.compute_average_loss(losses, sample_weight=weights, global_batch_size=BATCH)

    classifier_loop(strategy, record, loss_of)
