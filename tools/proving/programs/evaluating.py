"""Right and wrong: what is evaluated between steps, by functions that change variables and do not train."""

import tensorflow as tf
from keras_loops import dense, rows
from plain_loops import BATCH, RATE, SUM, context, descend, gradients_of, plain, plain_data, program_of

AGGREGATION, SYNCHRONIZATION = tf.VariableAggregation, tf.VariableSynchronization


def evaluated_loop(strategy, record, evaluate, *, aggregation=AGGREGATION.SUM, scale=1.0 / BATCH, distributed=True):
    """A right step, if `scale` is, after each of which `evaluate` sees a batch, and two things that it may change."""
    variables = plain(strategy)
    with strategy.scope():
        total = tf.Variable(
            0.0, trainable=False, aggregation=aggregation, synchronization=SYNCHRONIZATION.ON_READ, name="total"
        )
        held = tf.Variable(RATE, trainable=False, aggregation=AGGREGATION.MEAN, name="held")

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables, scale)
        descend(variables, gradients, held)
        return loss

    @tf.function
    def train_step(x, y):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    @tf.function
    def evaluate_step(x, y):
        def replica(x, y):
            error = tf.reduce_sum((x @ variables[0] + variables[1] - y) ** 2, axis=1)
            return evaluate(strategy, error, total, held)

        return strategy.reduce(SUM, strategy.run(replica, args=(x, y)), axis=None)

    dataset = strategy.experimental_distribute_dataset(plain_data())
    validation = plain_data(count=2 * BATCH)
    validation = strategy.experimental_distribute_dataset(validation) if distributed else validation
    for x, y in dataset:
        loss = train_step(x, y)
        for given in validation:
            last = evaluate_step(*given)
        record.step(loss=loss, variables=[*variables, held], metrics={"evaluated": last})


evaluated = program_of(evaluated_loop)


@evaluated()
def train_evaluated_sum(strategy, error, total, held):
    """Right: a sum of losses, which each replica adds to its own."""
    total.assign_add(tf.reduce_sum(error))
    return tf.reduce_sum(error) / BATCH


@evaluated()
def train_evaluated_mean_of_means(strategy, error, total, held):
    """What is evaluated is a mean of means, added up."""
    total.assign_add(tf.reduce_sum(error))
    return tf.reduce_mean(error)  # guilty


@evaluated()
def train_evaluated_means_kept(strategy, error, total, held):
    """Means of replicas are kept and added up where it is evaluated."""
    total.assign_add(tf.reduce_mean(error))  # guilty
    return tf.reduce_sum(error) / BATCH


@evaluated()
def train_evaluated_ones(strategy, error, total, held):
    """Each replica counts a batch where it is evaluated, and they are added up."""
    total.assign_add(1.0)  # guilty
    return tf.reduce_sum(error) / BATCH


@evaluated(aggregation=AGGREGATION.MEAN)
def train_evaluated_averaged(strategy, error, total, held):
    """What replicas have added up is averaged."""
    total.assign_add(tf.reduce_sum(error))  # guilty
    return tf.reduce_sum(error) / BATCH


@evaluated()
def train_evaluated_rate(strategy, error, total, held):
    """A rate is lowered by the number of replicas where it is evaluated."""
    held.assign(held / (1.0 + strategy.num_replicas_in_sync))  # guilty
    return tf.reduce_sum(error) / BATCH


@evaluated()
def train_evaluated_rate_by_loss(strategy, error, total, held):
    """A rate is lowered by a replica's mean loss where it is evaluated."""
    held.assign(held / (1.0 + tf.reduce_mean(error)))  # guilty
    return tf.reduce_sum(error) / BATCH


@evaluated()
def train_evaluated_rate_by_sum(strategy, error, total, held):
    """Right: the rate is lowered by the loss of all replicas."""
    whole = context().all_reduce(SUM, tf.reduce_sum(error))
    held.assign(held / (1.0 + whole))
    return tf.reduce_sum(error) / BATCH


@evaluated(distributed=False)
def train_evaluated_undistributed(strategy, error, total, held):
    """Every replica evaluates the whole batch, and they are added up."""
    total.assign_add(tf.reduce_sum(error))
    return tf.reduce_sum(error) / BATCH  # guilty


def train_evaluated_wrong_step(strategy, record):
    """The step adds up means, next to a right evaluation."""

    def evaluate(strategy, error, total, held):
        total.assign_add(tf.reduce_sum(error))
        return tf.reduce_sum(error) / BATCH

    evaluated_loop(strategy, record, evaluate, scale=strategy.num_replicas_in_sync / BATCH)  # guilty


@evaluated()
def train_evaluated_penalty(strategy, error, total, held):
    """Half of a penalty of each replica in what is evaluated."""
    total.assign_add(tf.reduce_sum(error) + 0.5 * held)  # guilty
    return tf.reduce_sum(error) / BATCH


def fit_and(strategy, record, test_step, *, between=False):
    """Keras 3, with a step of its own for evaluation, between two calls of `fit` or after each epoch."""
    import keras

    x, y = rows()
    keras.utils.set_random_seed(1)

    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = dense(keras)
            self.seen = self.add_weight(shape=(), initializer="zeros", trainable=False, name="seen")

        def call(self, inputs, training=False):
            return self.inner(inputs)

        def test_step(self, data):
            return test_step(self, keras, super().test_step, data)

    with strategy.scope():
        model = Own()
        model.build((None, 5))
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    given = {"batch_size": BATCH, "shuffle": False, "verbose": 0}
    if not between:
        model.fit(x, y, epochs=2, validation_data=(x, y), callbacks=[record.keras_callback(model)], **given)
        return
    for _ in range(2):
        model.fit(x, y, callbacks=[record.keras_callback(model)], **given)
        model.evaluate(x, y, batch_size=BATCH, verbose=0)


def train_fit_evaluated_between(strategy, record):
    """Right: evaluated between two calls of `fit`."""
    fit_and(strategy, record, lambda model, keras, original, data: original(data), between=True)


def train_fit_evaluation_trains(strategy, record):
    """An evaluation trains along each replica's own gradients."""

    def test_step(model, keras, original, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x), from_logits=True))
        for variable, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
            variable.assign_sub(RATE * gradient)  # guilty
        return original(data)

    fit_and(strategy, record, test_step)


def train_fit_evaluation_keeps(strategy, record):
    """An evaluation keeps the replica's own sum."""

    def test_step(model, keras, original, data):
        model.seen.assign(tf.reduce_sum(data[0]))  # guilty
        return original(data)

    fit_and(strategy, record, test_step)


def train_fit_evaluation_decays(strategy, record):
    """An evaluation makes weights smaller by the number of replicas."""

    def test_step(model, keras, original, data):
        for variable in model.trainable_variables:
            variable.assign(variable * 0.9 / tf.distribute.get_strategy().num_replicas_in_sync)  # guilty
        return original(data)

    fit_and(strategy, record, test_step, between=True)


def train_tf_keras_fit_evaluated_between(strategy, record):
    """Right: evaluated between two calls of `fit`, with a metric."""
    import tf_keras

    x, y = rows()
    tf_keras.utils.set_random_seed(1)
    with strategy.scope():
        model = tf_keras.Sequential([tf_keras.layers.Dense(3, input_shape=(5,))])
        loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf_keras.optimizers.SGD(RATE), loss, metrics=["accuracy"])
    for _ in range(2):
        model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[record.keras_callback(model)])
        model.evaluate(x, y, batch_size=BATCH, verbose=0)
