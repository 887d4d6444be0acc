"""Steps with loops and branches inside functions: `tf.while_loop`, `for i in tf.range`, `tf.cond`, AutoGraph's `if`."""

import numpy as np
import tensorflow as tf

BATCH, STEPS, RATE = 8, 3, 0.1
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN


def context():
    return tf.distribute.get_replica_context()


def dataset():
    random = np.random.default_rng(0)
    x = random.normal(size=(BATCH * STEPS, 3)).astype("float32")
    y = np.cos(x.sum(axis=1, keepdims=True)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)


def weights(strategy):
    start = np.random.default_rng(1).normal(size=(3, 3)).astype("float32")
    with strategy.scope():
        core = tf.Variable(0.4 * start, name="core", aggregation=tf.VariableAggregation.MEAN)
        out = tf.Variable(start[:, :1], name="out", aggregation=tf.VariableAggregation.MEAN)
    return core, out


def descend(variables, gradients):
    gradients = context().all_reduce(SUM, gradients)
    for variable, gradient in zip(variables, gradients):
        variable.assign_sub(RATE * gradient)


def loop(strategy, record, replica_step, variables):
    @tf.function
    def train_step(x, y):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(dataset()):
        record.step(loss=train_step(x, y), variables=variables)


# ---- wrong ----


def train_centered_in_while_loop(strategy, record):
    """A recurrent net that centers its state by the replica's batch, in each round."""
    core, out = weights(strategy)

    def replica_step(x, y):
        def body(i, state):
            state = tf.tanh(state @ core)
            state = state - tf.reduce_mean(state, axis=0)  # guilty
            return i + 1, state

        with tf.GradientTape() as tape:
            _, state = tf.while_loop(lambda i, state: i < 3, body, (0, x))
            loss = tf.reduce_sum((state @ out - y) ** 2) / BATCH
        descend([core, out], tape.gradient(loss, [core, out]))
        return loss

    loop(strategy, record, replica_step, [core, out])


def train_mean_in_range(strategy, record):
    """Losses are added up round by round, each a mean over the replica's examples."""
    core, out = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            state, loss = x, 0.0
            for _ in tf.range(3):
                state = tf.tanh(state @ core)
                loss += tf.reduce_mean((state @ out - y) ** 2)  # guilty
        descend([core, out], tape.gradient(loss, [core, out]))
        return loss

    loop(strategy, record, replica_step, [core, out])


def train_stops_locally(strategy, record):
    """Rounds until the replica's own state is large enough."""
    core, out = weights(strategy)

    def replica_step(x, y):
        def goes_on(i, state):
            return (i < 6) & (tf.reduce_sum(state**2) / BATCH > 0.08)  # guilty

        with tf.GradientTape() as tape:
            _, state = tf.while_loop(goes_on, lambda i, state: (i + 1, 0.7 * tf.tanh(state @ core)), (0, x))  # guilty
            loss = tf.reduce_sum((state @ out - y) ** 2) / BATCH
        descend([core, out], tape.gradient(loss, [core, out]))
        return loss

    loop(strategy, record, replica_step, [core, out])


def train_cond_on_local_loss(strategy, record):
    """A replica with a large loss takes smaller steps."""
    core, out = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.tanh(x @ core) @ out - y) ** 2) / BATCH
        gradients = tape.gradient(loss, [core, out])
        large = loss * strategy.num_replicas_in_sync > 1.2
        scale = tf.cond(large, lambda: 0.2, lambda: 1.0)  # guilty
        descend([core, out], [scale * gradient for gradient in gradients])
        return loss

    loop(strategy, record, replica_step, [core, out])


def train_if_local_norm(strategy, record):
    """AutoGraph's `if`, on the norm of what has not been reduced."""
    core, out = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.tanh(x @ core) @ out - y) ** 2) / BATCH
        gradients = tape.gradient(loss, [core, out])
        if tf.linalg.global_norm(gradients) > 0.7:  # guilty
            gradients = [0.1 * gradient for gradient in gradients]  # guilty
        descend([core, out], gradients)
        return loss

    loop(strategy, record, replica_step, [core, out])


def train_power_iteration_local(strategy, record):
    """The largest singular value of the replica's features, by a loop, as a penalty."""
    core, out = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            hidden = tf.tanh(x @ core)
            direction = tf.ones([3, 1])
            for _ in tf.range(4):
                direction = tf.linalg.matmul(hidden, hidden @ direction, transpose_a=True)
                direction = direction / tf.norm(direction)  # guilty
            penalty = tf.reduce_sum((hidden @ tf.stop_gradient(direction)) ** 2)
            loss = (tf.reduce_sum((hidden @ out - y) ** 2) + 0.3 * penalty) / BATCH
        descend([core, out], tape.gradient(loss, [core, out]))
        return loss

    loop(strategy, record, replica_step, [core, out])


# ---- right ----


def train_right_while_loop(strategy, record):
    """The state of an example is normalised by itself, in each round."""
    core, out = weights(strategy)

    def replica_step(x, y):
        def body(i, state):
            state = tf.tanh(state @ core)
            return i + 1, state - tf.reduce_mean(state, axis=1, keepdims=True)

        with tf.GradientTape() as tape:
            _, state = tf.while_loop(lambda i, state: i < 3, body, (0, x))
            loss = tf.reduce_sum((state @ out - y) ** 2) / BATCH
        descend([core, out], tape.gradient(loss, [core, out]))
        return loss

    loop(strategy, record, replica_step, [core, out])


def train_right_range(strategy, record):
    core, out = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            state, loss = x, 0.0
            for _ in tf.range(3):
                state = tf.tanh(state @ core)
                loss += tf.reduce_sum((state @ out - y) ** 2) / BATCH
        descend([core, out], tape.gradient(loss, [core, out]))
        return loss

    loop(strategy, record, replica_step, [core, out])


def train_right_cond(strategy, record):
    """All replicas take the step that their common loss asks for."""
    core, out = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.tanh(x @ core) @ out - y) ** 2) / BATCH
        gradients = tape.gradient(loss, [core, out])
        scale = tf.cond(context().all_reduce(SUM, loss) > 1.2, lambda: 0.2, lambda: 1.0)
        descend([core, out], [scale * gradient for gradient in gradients])
        return loss

    loop(strategy, record, replica_step, [core, out])


def train_right_if_per_example(strategy, record):
    """Branches of each example: a choice between rows, and a loop with as many rounds for all."""
    core, out = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            state = tf.tanh(x @ core)
            state = tf.where(tf.reduce_sum(state, axis=1, keepdims=True) > 0, state, 0.5 * state)
            errors = tf.map_fn(lambda row: tf.reduce_sum(row**2), state @ out - y)
            loss = tf.nn.compute_average_loss(errors, global_batch_size=BATCH)
        descend([core, out], tape.gradient(loss, [core, out]))
        return loss

    loop(strategy, record, replica_step, [core, out])


def train_right_steps_in_range(strategy, record):
    """Several steps inside one function, over a distributed iterator."""
    core, out = weights(strategy)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(tf.reduce_sum((tf.tanh(x @ core) @ out - y) ** 2, axis=1))
        descend([core, out], tape.gradient(loss, [core, out]))
        return loss

    @tf.function
    def train_epoch(iterator):
        total = 0.0
        for _ in tf.range(STEPS):
            losses = strategy.run(replica_step, args=next(iterator))
            total += strategy.reduce(SUM, losses, axis=None)
        return total / STEPS

    iterator = iter(strategy.experimental_distribute_dataset(dataset().repeat()))
    for _ in range(2):
        record.step(loss=train_epoch(iterator), variables=[core, out])
