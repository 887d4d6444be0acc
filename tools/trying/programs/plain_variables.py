"""Custom loops on plain variables: a linear model, sixteen examples a step, gradient descent written out."""

import numpy as np
import tensorflow as tf

BATCH, STEPS, RATE = 16, 3, 0.1
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN


def dataset():
    random = np.random.default_rng(0)
    x = random.normal(size=(BATCH * STEPS, 4)).astype("float32")
    noise = random.normal(size=(BATCH * STEPS, 1))
    y = (x @ np.array([[1.0], [-2.0], [0.5], [0.0]]) + 0.3 * noise).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)


def weights(strategy, aggregation=tf.VariableAggregation.MEAN):
    start = np.random.default_rng(1).normal(size=(4, 1)).astype("float32")
    with strategy.scope():
        w = tf.Variable(start, name="w", aggregation=aggregation)
        b = tf.Variable([0.1], name="b", aggregation=aggregation)
    return w, b


def descend(variables, gradients):
    """One step along the sum of all replicas' gradients."""
    gradients = tf.distribute.get_replica_context().all_reduce(SUM, gradients)
    for variable, gradient in zip(variables, gradients, strict=True):
        variable.assign_sub(RATE * gradient)


def loop(strategy, record, replica_step, variables):
    @tf.function
    def train_step(x, y):
        losses = strategy.run(replica_step, args=(x, y))
        return strategy.reduce(SUM, losses, axis=None)

    for x, y in strategy.experimental_distribute_dataset(dataset()):
        record.step(loss=train_step(x, y), variables=variables)


def averaging(strategy, record, replica_step, variables):
    """As `loop`, with the mean of what the replicas report."""

    @tf.function
    def train_step(x, y):
        return strategy.reduce(MEAN, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(dataset()):
        record.step(loss=train_step(x, y), variables=variables)


# ---- wrong ----


def train_penalty_divided_and_averaged(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.reduce_sum((x @ w + b - y) ** 2, axis=1))
            penalty = tf.nn.l2_loss(w)
            loss += penalty / strategy.num_replicas_in_sync  # guilty
        gradients = tf.distribute.get_replica_context().all_reduce(MEAN, tape.gradient(loss, [w, b]))
        w.assign_sub(RATE * gradients[0])
        b.assign_sub(RATE * gradients[1])
        return loss

    averaging(strategy, record, replica_step, [w, b])


def train_mean_then_sum(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.reduce_mean(per_example)  # guilty
        descend([w, b], tape.gradient(loss, [w, b]))
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_divided_twice(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
            loss = loss / strategy.num_replicas_in_sync  # guilty
        descend([w, b], tape.gradient(loss, [w, b]))
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_regularizer_not_divided(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
            loss += 0.05 * tf.nn.l2_loss(w)  # guilty
        descend([w, b], tape.gradient(loss, [w, b]))
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_prior_of_zeros(strategy, record):
    """The loss has it right at first, since it is zero; its gradient has not."""
    w, b = weights(strategy)
    with strategy.scope():
        scale = tf.Variable([0.0, 0.0], name="scale", aggregation=tf.VariableAggregation.MEAN)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
            loss = tf.exp(-scale[0]) * loss + tf.exp(-scale[1]) * loss
            loss += 0.5 * tf.reduce_sum(scale)  # guilty
        descend([w, b, scale], tape.gradient(loss, [w, b, scale]))
        return loss

    loop(strategy, record, replica_step, [w, b, scale])


def train_mean_of_parts(strategy, record):
    """The loss is a part of a sum, the gradients are averaged all the same."""
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        gradients = tape.gradient(loss, [w, b])
        gradients = tf.distribute.get_replica_context().all_reduce(MEAN, gradients)  # guilty
        w.assign_sub(RATE * gradients[0])
        b.assign_sub(RATE * gradients[1])
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_never_reduced(strategy, record):
    """The copies of the first replica win, as its variables say."""
    w, b = weights(strategy, tf.VariableAggregation.ONLY_FIRST_REPLICA)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        gradients = tape.gradient(loss, [w, b])
        w.assign_sub(RATE * gradients[0])  # guilty
        b.assign_sub(RATE * gradients[1])  # guilty
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_aggregation_mean(strategy, record):
    """Each replica subtracts its part, and the variables average the parts."""
    start = np.random.default_rng(1).normal(size=(4, 1)).astype("float32")
    with strategy.scope():
        w = tf.Variable(start, name="w", aggregation=tf.VariableAggregation.MEAN)  # guilty
        b = tf.Variable([0.1], name="b", aggregation=tf.VariableAggregation.MEAN)  # guilty

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        gradients = tape.gradient(loss, [w, b])
        w.assign_sub(RATE * gradients[0])  # guilty
        b.assign_sub(RATE * gradients[1])  # guilty
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_local_copies(strategy, record):
    """Variables of a kind that each replica keeps for itself."""
    start = np.random.default_rng(1).normal(size=(4, 1)).astype("float32")
    with strategy.scope():
        w = tf.Variable(  # guilty
            start,
            name="w",
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.MEAN,
        )

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            tape.watch(w)
            value = w.read_value()
            tape.watch(value)
            per_example = tf.reduce_sum((x @ value - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        w.assign_sub(RATE * tape.gradient(loss, value))  # guilty
        return loss

    loop(strategy, record, replica_step, [w])


def train_reduced_twice(strategy, record):
    """The sum of the gradients goes through the sum once more."""
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        gradients = tf.distribute.get_replica_context().all_reduce(SUM, tape.gradient(loss, [w, b]))
        gradients = tf.distribute.get_replica_context().all_reduce(SUM, gradients)  # guilty
        w.assign_sub(RATE * gradients[0])
        b.assign_sub(RATE * gradients[1])
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_centered_locally(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        x = x - tf.reduce_mean(x, axis=0)  # guilty
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        descend([w, b], tape.gradient(loss, [w, b]))
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_loss_only_mean(strategy, record):
    """The variables are right; what is printed is a mean of parts."""
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        descend([w, b], tape.gradient(loss, [w, b]))
        return loss

    @tf.function
    def train_step(x, y):
        losses = strategy.run(replica_step, args=(x, y))
        return strategy.reduce(MEAN, losses, axis=None)  # guilty

    for x, y in strategy.experimental_distribute_dataset(dataset()):
        record.step(loss=train_step(x, y), variables=[w, b])


def train_first_replica_loss(strategy, record):
    """The variables are right; what is printed is the loss of one replica."""
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        descend([w, b], tape.gradient(loss, [w, b]))
        return tf.reduce_mean(per_example)

    @tf.function
    def train_step(x, y):
        losses = strategy.run(replica_step, args=(x, y))
        return strategy.experimental_local_results(losses)[0]  # guilty

    for x, y in strategy.experimental_distribute_dataset(dataset()):
        record.step(loss=train_step(x, y), variables=[w, b])


def train_scaled_by_local_norm(strategy, record):
    """A learning rate from the norm of what one replica knows."""
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        gradients = tape.gradient(loss, [w, b])
        rate = RATE / (1.0 + tf.linalg.global_norm(gradients))  # guilty
        gradients = tf.distribute.get_replica_context().all_reduce(SUM, [rate * each for each in gradients])
        w.assign_sub(gradients[0])
        b.assign_sub(gradients[1])
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_root_of_parts(strategy, record):
    """The sign of each part of a gradient is not the part of a sign."""
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        gradients = tape.gradient(loss, [w, b])
        gradients = [tf.sign(gradient) * tf.sqrt(tf.abs(gradient)) for gradient in gradients]  # guilty
        descend([w, b], gradients)
        return loss

    loop(strategy, record, replica_step, [w, b])


# ---- right ----


def train_right(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        descend([w, b], tape.gradient(loss, [w, b]))
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_right_mean_of_means(strategy, record):
    """Means of equal shares, averaged."""
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.reduce_mean(per_example)
        gradients = tf.distribute.get_replica_context().all_reduce(MEAN, tape.gradient(loss, [w, b]))
        w.assign_sub(RATE * gradients[0])
        b.assign_sub(RATE * gradients[1])
        return loss

    averaging(strategy, record, replica_step, [w, b])


def train_right_divided_by_replicas(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.reduce_mean(per_example) / strategy.num_replicas_in_sync
        descend([w, b], tape.gradient(loss, [w, b]))
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_right_regularizer(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
            loss += tf.nn.scale_regularization_loss(0.05 * tf.nn.l2_loss(w))
        descend([w, b], tape.gradient(loss, [w, b]))
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_right_aggregation_sum(strategy, record):
    """Each replica subtracts its part, and the variables sum the parts."""
    w, b = weights(strategy, tf.VariableAggregation.SUM)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        gradients = tape.gradient(loss, [w, b])
        w.assign_sub(RATE * gradients[0])
        b.assign_sub(RATE * gradients[1])
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_right_centered_globally(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        total = tf.distribute.get_replica_context().all_reduce(SUM, tf.reduce_sum(x, axis=0))
        x = x - total / BATCH
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        descend([w, b], tape.gradient(loss, [w, b]))
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_right_scaled_by_norm(strategy, record):
    w, b = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            per_example = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
        gradients = tf.distribute.get_replica_context().all_reduce(SUM, tape.gradient(loss, [w, b]))
        rate = RATE / (1.0 + tf.linalg.global_norm(gradients))
        w.assign_sub(rate * gradients[0])
        b.assign_sub(rate * gradients[1])
        return loss

    loop(strategy, record, replica_step, [w, b])


def train_right_centered_rewards(strategy, record):
    """Rewards are centred among the answers to a question: what these have in common gets a gradient of rounding."""
    answers = 10
    with strategy.scope():
        w, v = tf.Variable(tf.zeros([4, 1]), name="w"), tf.Variable(tf.zeros([1, 1]), name="v")

    def replica_step(x, y):
        question = tf.repeat(tf.round(3 * tf.abs(x[:, :1])), answers, axis=0)
        each = tf.reshape(x[:, None, :] * tf.range(1.0, answers + 1)[:, None], (-1, 4))
        reward = tf.one_hot(tf.cast(tf.abs(y[:, 0]), tf.int32), answers) - 1.0 / answers
        with tf.GradientTape() as tape:
            scores = tf.reshape(each @ w + question @ v, (-1, answers))
            loss = -tf.einsum("bk,bk->", scores, reward) / BATCH
        descend([w, v], tape.gradient(loss, [w, v]))
        return loss

    loop(strategy, record, replica_step, [w, v])
