"""Programs that are proved: models of real size, which are right, and wrong ones written to be proved by mistake."""

import enum
import functools

import numpy as np
import tensorflow as tf

BATCH, RATE = 8, 0.1
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN


def context():
    return tf.distribute.get_replica_context()


# ---- models of Keras 3, in a loop of one's own ----


def keras_loop(strategy, record, build, x, y, optimizer, *, prepare=lambda gradients: gradients):
    """Cross entropy, divided by the global batch."""
    import keras

    keras.utils.set_random_seed(1)
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH))
    with strategy.scope():
        model, update = build(keras), optimizer(keras)

    def replica_step(inputs, labels):
        with tf.GradientTape() as tape:
            logits = tf.cast(model(inputs, training=False), tf.float32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        gradients = prepare(tape.gradient(loss, model.trainable_variables))
        update.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @tf.function
    def train_step(inputs, labels):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(inputs, labels)), axis=None)

    for inputs, labels in dataset:
        record.step(loss=train_step(inputs, labels), variables=model.trainable_variables)


def images(size):
    random = np.random.default_rng(0)
    return random.normal(size=(BATCH, size, size, 3)).astype("float32"), random.integers(0, 10, BATCH).astype("int32")


def tokens():
    random = np.random.default_rng(0)
    return random.integers(0, 20, size=(BATCH, 6)).astype("int32"), random.integers(0, 4, BATCH).astype("int32")


def rows():
    random = np.random.default_rng(0)
    return random.normal(size=(2 * BATCH, 5)).astype("float32"), random.integers(0, 3, 2 * BATCH).astype("int32")


def sgd(keras, **options):
    return keras.optimizers.SGD(RATE, **options)


def dense(keras):
    return keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(3)])


def transformer(keras):
    inputs = keras.Input((6,), dtype="int32")
    x = keras.layers.Embedding(20, 8)(inputs)
    attended = keras.layers.MultiHeadAttention(2, 4)(x, x)
    x = keras.layers.LayerNormalization()(x + attended)
    inner = keras.layers.Dense(8)(keras.layers.Dense(16, activation="gelu")(x))
    x = keras.layers.LayerNormalization()(x + inner)
    return keras.Model(inputs, keras.layers.Dense(4)(keras.layers.GlobalAveragePooling1D()(x)))


def train_mobilenet(strategy, record):
    def build(keras):
        return keras.applications.MobileNetV2((32, 32, 3), 0.35, weights=None, classes=10, classifier_activation=None)

    keras_loop(strategy, record, build, *images(32), sgd)


def train_resnet(strategy, record):
    def build(keras):
        return keras.applications.ResNet50(
            input_shape=(32, 32, 3), weights=None, classes=10, classifier_activation=None
        )

    keras_loop(strategy, record, build, *images(32), sgd)


def train_transformer(strategy, record):
    keras_loop(strategy, record, transformer, *tokens(), sgd)


def train_lstm(strategy, record):
    def build(keras):
        layers = keras.layers
        return keras.Sequential(
            [keras.Input((6,), dtype="int32"), layers.Embedding(20, 8), layers.LSTM(8), layers.Dense(4)]
        )

    keras_loop(strategy, record, build, *tokens(), sgd)


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


def train_mixed(strategy, record):
    def build(keras):
        with_policy = [keras.layers.Dense(4, dtype="mixed_bfloat16"), keras.layers.Dense(3, dtype="float32")]
        return keras.Sequential([keras.Input((5,)), *with_policy])

    keras_loop(strategy, record, build, *rows(), sgd)


# ---- tf_keras, and fit ----


def tf_keras_loop(strategy, record, optimizer):
    import tf_keras

    x, y = rows()
    tf_keras.utils.set_random_seed(1)
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH))
    with strategy.scope():
        layers = [tf_keras.layers.Dense(4, activation="tanh", input_shape=(5,)), tf_keras.layers.Dense(3)]
        model, update = tf_keras.Sequential(layers), optimizer(tf_keras)

    def replica_step(inputs, labels):
        with tf.GradientTape() as tape:
            losses = tf_keras.losses.sparse_categorical_crossentropy(labels, model(inputs), from_logits=True)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        update.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    @tf.function
    def train_step(inputs, labels):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(inputs, labels)), axis=None)

    for inputs, labels in dataset:
        record.step(loss=train_step(inputs, labels), variables=model.trainable_variables)


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


def train_transformer_mean(strategy, record):
    import keras

    keras.utils.set_random_seed(1)
    x, y = tokens()
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH))
    with strategy.scope():
        model, update = transformer(keras), sgd(keras)

    def replica_step(inputs, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(inputs))
            loss = tf.reduce_mean(losses)  # guilty
        update.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    @tf.function
    def train_step(inputs, labels):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(inputs, labels)), axis=None)

    for inputs, labels in dataset:
        record.step(loss=train_step(inputs, labels), variables=model.trainable_variables)


# ---- wrong programs, on plain variables ----


def plain(strategy, dtype="float32"):
    with strategy.scope():
        start = tf.constant([[0.5], [-0.3], [0.2]], dtype)
        w = tf.Variable(start, name="w", aggregation=tf.VariableAggregation.MEAN)
        b = tf.Variable(tf.constant([0.1], dtype), name="b", aggregation=tf.VariableAggregation.MEAN)
    return w, b


def plain_data(*, drop=False, count=3 * BATCH, dtype="float32"):
    random = np.random.default_rng(3)
    x = random.normal(size=(count, 3)).astype(dtype)
    y = (x.sum(axis=1, keepdims=True) + 0.5 * random.normal(size=(count, 1))).astype(dtype)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH, drop_remainder=drop)


def gradients_of(x, y, variables, scale=1.0 / BATCH):
    w, b = variables
    with tf.GradientTape() as tape:
        losses = tf.reduce_sum((x @ w + b - y) ** 2, axis=1)
        loss = scale * tf.reduce_sum(losses)
    return loss, tape.gradient(loss, [w, b])


def descend(variables, gradients, rate=RATE):
    for variable, gradient in zip(variables, context().all_reduce(SUM, gradients)):
        variable.assign_sub(rate * gradient)


def plain_loop(strategy, record, replica_step, variables, **options):
    @tf.function
    def train_step(x, y):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(plain_data(**options)):
        record.step(loss=train_step(x, y), variables=variables)


def train_loss_after(strategy, record):
    """The training is right; what is reported is multiplied by the replicas."""
    variables = plain(strategy)

    @tf.function
    def train_step(x, y):
        def replica_step(x, y):
            loss, gradients = gradients_of(x, y, variables)
            descend(variables, gradients)
            return loss

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        record.step(loss=train_step(x, y) * strategy.num_replicas_in_sync, variables=variables)  # guilty


def train_rate_grows(strategy, record):
    """At the first step it makes no difference."""
    variables = plain(strategy)

    @tf.function
    def train_step(x, y, rate):
        def replica_step(x, y):
            loss, gradients = gradients_of(x, y, variables)
            descend(variables, gradients, rate)
            return loss

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(plain_data())):
        rate = tf.constant(RATE) + 0.1 * number * (strategy.num_replicas_in_sync - 1)  # guilty
        record.step(loss=train_step(x, y, rate), variables=variables)


def train_assigned_between(strategy, record):
    variables = plain(strategy)
    with strategy.scope():
        rate = tf.Variable(RATE, trainable=False, name="rate")

    @tf.function
    def train_step(x, y):
        def replica_step(x, y):
            loss, gradients = gradients_of(x, y, variables)
            descend(variables, gradients, rate)
            return loss

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        record.step(loss=train_step(x, y), variables=variables)
        rate.assign(RATE / strategy.num_replicas_in_sync)  # guilty


def train_another_value(strategy, record):
    """The first call is right; later ones are of another graph."""
    variables = plain(strategy)

    @tf.function
    def train_step(x, y, warm):
        def replica_step(x, y):
            loss, gradients = gradients_of(x, y, variables, (1.0 if warm else 2.0) / BATCH if warm else 1.0)
            descend(variables, gradients)
            return loss

        return strategy.reduce(SUM if warm else MEAN, strategy.run(replica_step, args=(x, y)), axis=None)  # guilty

    for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(plain_data())):
        record.step(loss=train_step(x, y, number == 0), variables=variables)


def train_eager_inside(strategy, record):
    """A function gives what is right, and each replica does with it what is wrong, operation by operation."""
    variables = plain(strategy)
    w = variables[0]

    @tf.function
    def penalty():
        with tf.GradientTape() as tape:
            loss = tf.nn.l2_loss(w)
        return tape.gradient(loss, w)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients)
        w.assign_sub(0.01 * context().all_reduce(SUM, penalty()))  # guilty
        return loss

    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        losses = strategy.run(replica_step, args=(x, y))
        record.step(loss=strategy.reduce(SUM, losses, axis=None), variables=variables)


def train_every_second(strategy, record):
    """Another function, which comes later, takes away too much."""
    variables = plain(strategy)

    @tf.function
    def train_step(x, y):
        def replica_step(x, y):
            loss, gradients = gradients_of(x, y, variables)
            descend(variables, gradients)
            return loss

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    @tf.function
    def decay():
        strategy.run(lambda: variables[0].assign(variables[0] / strategy.num_replicas_in_sync))  # guilty

    for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(plain_data())):
        if number == 2:
            decay()
        record.step(loss=train_step(x, y), variables=variables)


def train_floor(strategy, record):
    """Half of the replica's rows, rounded."""
    variables = plain(strategy)

    def replica_step(x, y):
        half = tf.cast(tf.shape(x)[0] // 3, tf.float32)
        loss, gradients = gradients_of(x, y, variables, half / BATCH)  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_seeded_noise(strategy, record):
    """Equal seeds, and so equal noise for the rows of every replica."""
    variables = plain(strategy)

    def replica_step(x, y):
        noise = tf.random.stateless_normal(tf.shape(x), seed=[1, 2])  # guilty
        loss, gradients = gradients_of(x + 0.1 * noise, y, variables)
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_loop_of_parts(strategy, record):
    """Squared again and again, in a loop of the graph."""
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        number = tf.constant(0)
        for _ in tf.range(2):
            gradients = [gradient + 0.1 * gradient * gradient for gradient in gradients]  # guilty
            number += 1
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_decided_by_part(strategy, record):
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        if loss > 0.5:  # guilty
            gradients = [2.0 * gradient for gradient in gradients]
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_first_rows(strategy, record):
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        mine = tf.cast(tf.equal(context().replica_id_in_sync_group, 0), tf.float32)
        descend(variables, [mine * gradient for gradient in gradients])  # guilty
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_halves(strategy, record):
    """Each replica leaves out its first example; on one device it is one of all."""
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x[1:], y[1:], variables)  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_squared_sum(strategy, record):
    variables = plain(strategy)
    w, b = variables

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x @ w + b - y) ** 2 / BATCH**2  # guilty
        descend(variables, tape.gradient(loss, [w, b]))
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_batch_of_replica(strategy, record):
    """The number of rows is known when the graph is made, as a plain number."""
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables, 1.0 / int(x.shape[0]))  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables, drop=True)


def train_maximum_of_parts(strategy, record):
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, [tf.maximum(gradient, -0.1) for gradient in gradients])  # guilty
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_weight_by_rows(strategy, record):
    variables = plain(strategy)

    def replica_step(x, y):
        count = tf.cast(tf.shape(x)[0], tf.float32)
        loss, gradients = gradients_of(x, y, variables, count / BATCH**2)  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_replica_id(strategy, record):
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        share = 1.0 + tf.cast(context().replica_id_in_sync_group, tf.float32)
        descend(variables, [share * gradient for gradient in gradients])  # guilty
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_epsilon_per_replica(strategy, record):
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, [gradient + 0.01 for gradient in gradients])  # guilty
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_reduced_half(strategy, record):
    variables = plain(strategy)
    w, b = variables

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        w.assign_sub(RATE * context().all_reduce(SUM, gradients[0]))
        b.assign_sub(RATE * gradients[1])  # guilty
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_clipped_parts(strategy, record):
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        clipped, _ = tf.clip_by_global_norm(gradients, 0.3)  # guilty
        descend(variables, clipped)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_state_first(strategy, record):
    variables = plain(strategy)
    with strategy.scope():
        running = tf.Variable(
            [0.0, 0.0, 0.0], name="running", trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
        )

    def replica_step(x, y):
        running.assign(0.9 * running + 0.1 * tf.reduce_sum(x, axis=0) / BATCH)  # guilty
        loss, gradients = gradients_of(x - running, y, variables)  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, [*variables, running])


# ---- wrong programs that were proved until each of them was found ----


def train_undistributed(strategy, record):
    """The dataset is never distributed: every replica gets the whole batch, and parts are added up."""
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients)
        return loss

    @tf.function
    def train_step(x, y):
        strategy.run(replica_step, args=(x, y))

    for x, y in plain_data():  # guilty
        train_step(x, y)
        record.step(variables=variables)


def train_cast_count(strategy, record):
    """Half of each replica's rows, rounded by a cast."""
    variables = plain(strategy)

    def replica_step(x, y):
        half = tf.cast(tf.cast(tf.cast(tf.shape(x)[0], tf.float32) * 0.5, tf.int32), tf.float32)  # guilty
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients, RATE * context().all_reduce(SUM, half))
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_cast_slice(strategy, record):
    """Leaves out the replica's last row if it has an odd number of them."""
    variables = plain(strategy)

    def replica_step(x, y):
        even = 2 * tf.cast(tf.cast(tf.shape(x)[0], tf.float32) * 0.5, tf.int32)  # guilty
        x, y = tf.slice(x, [0, 0], tf.stack([even, 3])), tf.slice(y, [0, 0], tf.stack([even, 1]))
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_narrow_count(strategy, record):
    """A number of rows that is too large for one byte on one device, and not in each replica."""
    variables = plain(strategy)

    def replica_step(x, y):
        count = tf.cast(tf.cast(40 * tf.shape(x)[0], tf.int8), tf.float32)  # guilty
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients, 0.01 * RATE * context().all_reduce(SUM, count))
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_largest(strategy, record):
    """The largest of the replicas' values is taken for their sum."""
    variables = plain(strategy)

    def joined(strategy, given):
        parts = strategy.experimental_local_results(given)
        if len(parts) == 1:
            return parts[0]
        return tf.reduce_sum(tf.reduce_max(tf.stack(parts), axis=0), axis=0)  # guilty

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        total = context().merge_call(joined, args=(gradients[1],))
        descend(variables, gradients, RATE * tf.abs(total))
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_narrow_sum(strategy, record):
    """A sum of bytes is too large on one device, and not in each replica."""
    variables = plain(strategy)

    def replica_step(x, y):
        total = tf.reduce_sum(50 * tf.cast(tf.ones_like(x), tf.uint8))
        total = context().all_reduce(SUM, tf.cast(total, tf.float32))  # guilty
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients, RATE * total / 255.0)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_narrow_part(strategy, record):
    """A part of a sum fits into a byte where all of it does not."""
    variables = plain(strategy)

    def replica_step(x, y):
        total = tf.reduce_sum(30 * tf.cast(tf.ones_like(y), tf.int32))
        total = context().all_reduce(SUM, tf.cast(tf.cast(total, tf.int8), tf.int32))  # guilty
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients, RATE * tf.cast(total, tf.float32))
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_whole_mean(strategy, record):
    """A mean of whole numbers is a whole number: rounded in each replica."""
    variables = plain(strategy)

    def replica_step(x, y):
        mean = tf.reduce_mean(tf.cast(10.0 * y, tf.int32))  # guilty
        mean = context().all_reduce(SUM, tf.cast(mean, tf.float32)) / strategy.num_replicas_in_sync
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients, RATE * mean)
        return loss

    plain_loop(strategy, record, replica_step, variables, drop=True)


def train_filled_at_least_once(strategy, record):
    """A replica without examples counts for one."""
    variables = plain(strategy)

    def replica_step(x, y):
        ones = tf.ones([tf.maximum(tf.shape(x)[0], 1)])  # guilty
        total = context().all_reduce(SUM, tf.reduce_sum(ones))
        loss, gradients = gradients_of(x, y, variables, 1.0)
        descend(variables, [gradient / total for gradient in gradients])
        return loss

    plain_loop(strategy, record, replica_step, variables, count=17)


def train_two_counts(strategy, record):
    """Two datasets, of which only the first batches are equally long: each replica divides what it has of them."""
    variables = plain(strategy)

    @tf.function
    def train_step(x, y, z):
        def replica_step(x, y, z):
            ratio = tf.cast(tf.shape(x)[0], tf.float32) / tf.cast(tf.shape(z)[0], tf.float32)  # guilty
            loss, gradients = gradients_of(x, y, variables)
            descend(variables, [ratio * gradient for gradient in gradients])
            return loss

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y, z)), axis=None)

    one = strategy.experimental_distribute_dataset(plain_data())
    other = strategy.experimental_distribute_dataset(plain_data(count=19).map(lambda x, _: x))
    for (x, y), z in zip(one, other, strict=True):
        record.step(loss=train_step(x, y, z), variables=variables)


def train_next_to_one(strategy, record):
    """A number that is 1 in 24 bits, and not in 53."""
    variables = plain(strategy, "float64")

    def replica_step(x, y):
        near = tf.constant(1.0 + 1e-8 * (strategy.num_replicas_in_sync - 1), tf.float64)
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients, RATE * (1.0 + 1e8 * (near - 1.0)))  # guilty
        return loss

    plain_loop(strategy, record, replica_step, variables, dtype="float64")


# ---- right as traced, and wrong in what is around that ----


def uneven_loop(strategy, record, replica_step, variables, rows=21):
    @tf.function
    def train_step(x, y):
        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(plain_data().unbatch().take(rows).batch(BATCH)):
        record.step(loss=train_step(x, y), variables=variables)


def train_static_or_none(strategy, record):
    variables = plain(strategy)

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables, 1.0 / (x.shape[0] or BATCH))  # guilty
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_static_by_hand(strategy, record):
    variables = plain(strategy)
    w, b = variables

    def replica_step(x, y):
        residual = x @ w + b - y
        scale = 2.0 / x.shape[0]  # guilty
        gradients = [scale * tf.matmul(x, residual, transpose_a=True), scale * tf.reduce_sum(residual, axis=0)]
        for variable, gradient in zip(variables, context().all_reduce(MEAN, gradients)):
            variable.assign_sub(RATE * gradient)
        return tf.reduce_sum(residual)

    uneven_loop(strategy, record, replica_step, variables)


def train_another_trace(strategy, record):
    variables = plain(strategy)
    traces = []

    def replica_step(x, y):
        traces.append(1)
        first = len(traces) <= strategy.num_replicas_in_sync
        loss, gradients = gradients_of(x, y, variables)
        scale = 1.0 if first else strategy.num_replicas_in_sync  # guilty
        descend(variables, [scale * gradient for gradient in gradients])
        return loss

    uneven_loop(strategy, record, replica_step, variables)


def train_numpy_rate(strategy, record):
    variables = plain(strategy)

    @tf.function
    def train_step(x, y, rate):
        def replica_step(x, y):
            loss, gradients = gradients_of(x, y, variables)
            descend(variables, gradients, rate)
            return loss

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(plain_data())):
        rate = np.float32(RATE + 0.1 * number * (strategy.num_replicas_in_sync - 1))  # guilty
        record.step(loss=train_step(x, y, rate), variables=variables)


def train_another_member(strategy, record):
    class Mode(enum.Enum):
        WARM = 1
        LATE = 2

    variables = plain(strategy)

    @tf.function
    def train_step(x, y, mode):
        def replica_step(x, y):
            loss, gradients = gradients_of(x, y, variables)
            descend(variables, gradients, RATE if mode is Mode.WARM else RATE / strategy.num_replicas_in_sync)  # guilty
            return loss

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(plain_data())):
        record.step(loss=train_step(x, y, Mode.LATE if number else Mode.WARM), variables=variables)


def train_mean_of_rows(strategy, record):
    variables = plain(strategy)
    w, b = variables

    @tf.function
    def train_step(x, y):
        def replica_step(x, y):
            _, gradients = gradients_of(x, y, variables)
            descend(variables, gradients)
            return tf.reduce_sum((x @ w + b - y) ** 2, axis=1)

        return strategy.run(replica_step, args=(x, y))

    for x, y in strategy.experimental_distribute_dataset(plain_data().unbatch().take(21).batch(BATCH)):
        losses = strategy.experimental_local_results(train_step(x, y))
        record.step(loss=np.mean([np.mean(each) for each in losses]), variables=variables)  # guilty


def rate_of(strategy):
    with strategy.scope():
        return tf.Variable(RATE, trainable=False, name="rate")


def rate_loop(strategy, record, variables, rate, between, data):
    @tf.function
    def train_step(x, y):
        def replica_step(x, y):
            loss, gradients = gradients_of(x, y, variables)
            descend(variables, gradients, rate)
            return loss

        return strategy.reduce(SUM, strategy.run(replica_step, args=(x, y)), axis=None)

    for number, (x, y) in enumerate(strategy.experimental_distribute_dataset(data)):
        loss = train_step(x, y)
        record.step(loss=loss, variables=variables)
        between(number, loss)


def train_late(strategy, record):
    variables, rate = plain(strategy), rate_of(strategy)

    def between(number, loss):
        if number == 260:
            rate.assign(RATE / strategy.num_replicas_in_sync)  # guilty

    rate_loop(strategy, record, variables, rate, between, plain_data().repeat(100))


def train_even_evaluation(strategy, record):
    variables = plain(strategy)

    @tf.function
    def train_step(x, y):
        def replica_step(x, y):
            descend(variables, gradients_of(x, y, variables)[1])

        strategy.run(replica_step, args=(x, y))

    @tf.function
    def evaluate(x, y):
        means = strategy.run(lambda x, y: tf.reduce_mean(tf.round(y)), args=(x, y))
        return strategy.reduce(MEAN, means, axis=None)  # guilty

    for x, y in strategy.experimental_distribute_dataset(plain_data()):
        train_step(x, y)
        record.step(loss=evaluate(x, y), variables=variables)


def train_reported_before(strategy, record):
    variables = plain(strategy)
    record.step(loss=1.0 * strategy.num_replicas_in_sync, variables=variables)  # guilty

    def replica_step(x, y):
        loss, gradients = gradients_of(x, y, variables)
        descend(variables, gradients)
        return loss

    plain_loop(strategy, record, replica_step, variables)


def train_host_threshold(strategy, record):
    variables, rate = plain(strategy), rate_of(strategy)
    losses = []

    def between(number, loss):
        losses.append(float(loss))
        if losses[-1] < losses[0]:
            rate.assign(rate / strategy.num_replicas_in_sync)  # guilty

    rate_loop(strategy, record, variables, rate, between, plain_data())
