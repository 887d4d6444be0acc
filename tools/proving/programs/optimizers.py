"""Small models of Keras 3 and tf_keras under several optimizers, in loops and in fit."""

import functools

import tensorflow as tf
from keras_loops import dense, keras_loop, rows, sgd, tf_keras_loop
from plain_loops import BATCH, RATE, SUM, context, gradients_of, plain, plain_loop


def train_sgd(strategy, record):
    keras_loop(strategy, record, dense, *rows(), sgd)


def train_momentum(strategy, record):
    keras_loop(strategy, record, dense, *rows(), functools.partial(sgd, momentum=0.9, nesterov=True))


def train_adam(strategy, record):
    keras_loop(strategy, record, dense, *rows(), lambda keras: keras.optimizers.Adam(0.01, weight_decay=0.01))


def train_clipped_by_value(strategy, record):
    def clipped(gradients):
        summed = context().all_reduce(SUM, gradients)
        summed, _ = tf.clip_by_global_norm(summed, 0.5)
        return [gradient / strategy.num_replicas_in_sync for gradient in summed]

    keras_loop(strategy, record, dense, *rows(), sgd, prepare=clipped)


def train_accumulated(strategy, record):
    accumulating = functools.partial(sgd, gradient_accumulation_steps=2)
    keras_loop(strategy, record, dense, *rows(), accumulating)


def train_accumulated_by_hand(strategy, record):
    """Gradients of two steps, in variables of the program's own."""
    variables = plain(strategy)
    with strategy.scope():
        kept = {"trainable": False, "aggregation": tf.VariableAggregation.MEAN}
        sums = [tf.Variable(tf.zeros_like(each), name="sum", **kept) for each in variables]
        count = tf.Variable(0.0, name="count", **kept)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        every_second = count - 2.0 * tf.floor(count / 2.0)
        for variable, held, gradient in zip(variables, sums, context().all_reduce(SUM, gradients)):
            total = held + gradient
            variable.assign_sub(RATE * every_second * total)
            held.assign((1.0 - every_second) * total)
        count.assign_add(1.0)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_mixed(strategy, record):
    def build(keras):
        with_policy = [keras.layers.Dense(4, dtype="mixed_bfloat16"), keras.layers.Dense(3, dtype="float32")]
        return keras.Sequential([keras.Input((5,)), *with_policy])

    keras_loop(strategy, record, build, *rows(), sgd)


def train_tf_keras_dense(strategy, record):
    tf_keras_loop(strategy, record, lambda keras: keras.optimizers.SGD(RATE, momentum=0.9))


def train_tf_keras_adam(strategy, record):
    tf_keras_loop(strategy, record, lambda keras: keras.optimizers.Adam(0.01))


def train_fit_adam(strategy, record):
    import keras

    x, y = rows()
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = dense(keras)
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[record.keras_callback(model)])


def train_tf_keras_fit_momentum(strategy, record):
    import tf_keras

    x, y = rows()
    tf_keras.utils.set_random_seed(1)
    with strategy.scope():
        model = tf_keras.Sequential([tf_keras.layers.Dense(3, input_shape=(5,))])
        loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf_keras.optimizers.SGD(RATE, momentum=0.9), loss)
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[record.keras_callback(model)])


def train_fit_evaluated(strategy, record):
    """After each epoch the model is evaluated, by the same metrics."""
    import keras

    x, y = rows()
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = dense(keras)
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    given = {"batch_size": BATCH, "validation_data": (x, y), "callbacks": [record.keras_callback(model)]}
    model.fit(x, y, epochs=2, shuffle=False, verbose=0, **given)


def train_tf_keras_fit_evaluated(strategy, record):
    import tf_keras

    x, y = rows()
    tf_keras.utils.set_random_seed(1)
    with strategy.scope():
        model = tf_keras.Sequential([tf_keras.layers.Dense(3, input_shape=(5,))])
        loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf_keras.optimizers.SGD(RATE), loss, metrics=["accuracy"])
    given = {"batch_size": BATCH, "validation_data": (x, y), "callbacks": [record.keras_callback(model)]}
    model.fit(x, y, epochs=2, shuffle=False, verbose=0, **given)
