"""Models that are laid out over a mesh by DTensor: batches along one axis, layers along the other."""

import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

BATCH, STEPS, RATE = 8, 3, 0.1
WHOLE = dtensor.UNSHARDED
random = np.random.default_rng(3)
X = random.normal(size=(STEPS, BATCH, 6)).astype("float32")
Y = random.normal(size=(STEPS, BATCH, 2)).astype("float32")
W1, W2 = random.normal(size=(6, 4)).astype("float32"), random.normal(size=(4, 2)).astype("float32")


def on(mesh, value, *axes):
    """A value by its layout."""
    return dtensor.relayout(tf.constant(value), dtensor.Layout(list(axes), mesh))


def layers(mesh, first=(WHOLE, "model"), second=("model", WHOLE)):
    """Two layers, cut along their columns and along their rows."""
    return [
        dtensor.DVariable(on(mesh, W1, *first), name="first"),
        dtensor.DVariable(on(mesh, W2, *second), name="second"),
    ]


def batches(mesh):
    for x, y in zip(X, Y):
        yield on(mesh, x, "batch", WHOLE), on(mesh, y, "batch", WHOLE)


def parts(value):
    """What each device has, in its order."""
    return dtensor.unpack(value)


def each(values, function):
    """What a function makes of what each device has, there."""
    found = []
    for value in values:
        with tf.device(value.device):
            found.append(function(value))
    return found


def summed(mesh, values, times=1.0):
    """The sum over the batch axis, for each device."""
    array = np.array([value.numpy() for value in values])
    total = array.reshape(mesh.dim_size("batch"), mesh.dim_size("model"), *array.shape[1:]).sum(axis=0)
    devices = range(len(values))
    copies = [total[k % mesh.dim_size("model")] * np.float32(times) for k in devices]  # guilty: train_reduced_twice
    return [place(value.device, copy) for value, copy in zip(values, copies)]


def place(device, value):
    with tf.device(device):
        return tf.constant(value)


def loop(strategy, record, loss_of, variables=None):
    """A step in a graph: gradients of a loss, and an update by hand."""
    variables = layers(strategy.mesh) if variables is None else variables

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(x, y, *variables)
        gradients = tape.gradient(loss, variables)
        for variable, gradient in zip(variables, gradients):
            variable.assign_sub(RATE * gradient)
        return loss, gradients

    for x, y in batches(strategy.mesh):
        loss, gradients = step(x, y)
        record.step(loss=loss, gradients=gradients, variables=variables)


def squares(x, y, first, second):
    return tf.reduce_mean((tf.matmul(tf.tanh(tf.matmul(x, first)), second) - y) ** 2)


def train_right(strategy, record):
    loop(strategy, record, squares)


def train_right_data_parallel(strategy, record):
    loop(strategy, record, squares, layers(strategy.mesh, (WHOLE, WHOLE), (WHOLE, WHOLE)))


def train_right_rows_first(strategy, record):
    """A row-parallel layer first: DTensor relays its input."""
    loop(strategy, record, squares, layers(strategy.mesh, ("model", WHOLE), (WHOLE, WHOLE)))


def train_right_over_batch_axis(strategy, record):
    """Variables cut along the axis of the batch, and gathered where they are used."""
    loop(strategy, record, squares, layers(strategy.mesh, (WHOLE, "batch"), ("batch", WHOLE)))


def train_right_layer_norm(strategy, record):
    def loss_of(x, y, first, second):
        hidden = tf.matmul(x, first)
        mean, variance = tf.nn.moments(hidden, [-1], keepdims=True)
        return tf.reduce_mean((tf.matmul((hidden - mean) * tf.math.rsqrt(variance + 1e-3), second) - y) ** 2)

    loop(strategy, record, loss_of)


def train_right_batch_norm(strategy, record):
    """Statistics of the whole batch: a mean over a sharded axis is the whole one."""

    def loss_of(x, y, first, second):
        hidden = tf.matmul(x, first)
        mean, variance = tf.nn.moments(hidden, [0], keepdims=True)
        return tf.reduce_mean((tf.matmul((hidden - mean) * tf.math.rsqrt(variance + 1e-3), second) - y) ** 2)

    loop(strategy, record, loss_of)


def train_right_softmax(strategy, record):
    def loss_of(x, y, first, second):
        return tf.reduce_mean((tf.matmul(tf.nn.softmax(tf.matmul(x, first)), second) - y) ** 2)

    loop(strategy, record, loss_of)


def train_right_attention(strategy, record):
    """Heads along the model axis, over an example's three tokens of two features."""

    def loss_of(x, y, queries, keys):
        tokens = tf.reshape(x, [BATCH, 3, 2])
        query, key = (tf.einsum("btf,fhd->bthd", tokens, each) for each in (queries, keys))
        scores = tf.nn.softmax(tf.einsum("bqhd,bkhd->bhqk", query, key))
        return tf.reduce_mean(tf.einsum("bhqk,bkhd->bqhd", scores, key) ** 2) - tf.reduce_mean(y)

    heads = [W1.reshape(2, 4, 3), W1[::-1].reshape(2, 4, 3)]
    variables = [
        dtensor.DVariable(on(strategy.mesh, each, WHOLE, "model", WHOLE), name=name)
        for each, name in zip(heads, ("queries", "keys"))
    ]
    loop(strategy, record, loss_of, variables)


def train_right_clipped(strategy, record):
    variables = layers(strategy.mesh)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = squares(x, y, *variables)
        gradients, norm = tf.clip_by_global_norm(tape.gradient(loss, variables), 0.5)
        for variable, gradient in zip(variables, gradients):
            variable.assign_sub(RATE * gradient)
        return loss, norm

    for x, y in batches(strategy.mesh):
        loss, norm = step(x, y)
        record.step(loss=loss, metrics={"norm": norm}, variables=variables)


def train_right_momentum_by_value(strategy, record):
    """What is written is not read again, so that no write can come too late."""
    variables = layers(strategy.mesh)
    slots = [
        dtensor.DVariable(on(strategy.mesh, np.zeros_like(W1), WHOLE, "model"), name="slot_of_first"),
        dtensor.DVariable(on(strategy.mesh, np.zeros_like(W2), "model", WHOLE), name="slot_of_second"),
    ]

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = squares(x, y, *variables)
        for variable, slot, gradient in zip(variables, slots, tape.gradient(loss, variables)):
            value = 0.9 * slot + gradient
            slot.assign(value)
            variable.assign_sub(RATE * value)
        return loss

    for x, y in batches(strategy.mesh):
        record.step(loss=step(x, y), variables=[*variables, *slots])


def train_right_eager(strategy, record):
    variables = layers(strategy.mesh)
    with dtensor.default_mesh(strategy.mesh):
        for x, y in batches(strategy.mesh):
            with tf.GradientTape() as tape:
                loss = squares(x, y, *variables)
            gradients = tape.gradient(loss, variables)
            for variable, gradient in zip(variables, gradients):
                variable.assign_sub(RATE * gradient)
            record.step(loss=loss, gradients=gradients, variables=variables)


def train_right_in_halves(strategy, record):
    """A product as the sum of two."""

    def loss_of(x, y, first, second):
        halves = zip(tf.split(x, 2, axis=1), tf.split(first, 2, axis=0))
        hidden = tf.add_n([tf.matmul(part, rows) for part, rows in halves])
        return tf.reduce_mean((tf.matmul(tf.tanh(hidden), second) - y) ** 2)

    loop(strategy, record, loss_of)


def by_hand(strategy, record, reduced, gradient_of=None):
    """Data parallel by hand: gradients of what each device has, put together by the program."""
    mesh = strategy.mesh
    weights = dtensor.DVariable(on(mesh, W1, WHOLE, WHOLE), name="weights")

    def gradient(x, w):
        return tf.matmul(x, tf.matmul(x, w) - 1.0, transpose_a=True) / BATCH

    for x, _ in batches(mesh):
        values = []
        for part, copy in zip(parts(x), parts(weights.read_value())):
            with tf.device(part.device):
                values.append((gradient_of or gradient)(part, copy))
        packed = dtensor.pack(reduced(mesh, values), dtensor.Layout.replicated(mesh, 2))  # guilty: train_missing_reduce
        weights.assign_sub(RATE * packed)
        record.step(gradients=[packed], variables=[weights])


def train_right_by_hand(strategy, record):
    by_hand(strategy, record, summed)


def train_missing_reduce(strategy, record):
    by_hand(strategy, record, lambda mesh, values: values)  # guilty


def train_reduced_twice(strategy, record):
    def twice(mesh, values):
        return summed(mesh, values, times=mesh.dim_size("batch"))  # guilty

    by_hand(strategy, record, twice)


def train_mean_then_sum(strategy, record):
    def gradient(x, w):
        return tf.matmul(x, tf.matmul(x, w) - 1.0, transpose_a=True) / len(x)  # guilty

    by_hand(strategy, record, summed, gradient)


def train_first_device_only(strategy, record):
    def first(mesh, values):
        return [place(value.device, values[0].numpy()) for value in values]  # guilty

    by_hand(strategy, record, first)


def train_summed_over_all(strategy, record):
    """Over both axes, along one of which all have the same."""

    def over_all(mesh, values):
        total = np.sum([value.numpy() for value in values], axis=0)  # guilty
        return [place(value.device, total) for value in values]

    by_hand(strategy, record, over_all)


def train_clipped_before_reduce(strategy, record):
    def gradient(x, w):
        return tf.clip_by_norm(tf.matmul(x, tf.matmul(x, w) - 1.0, transpose_a=True) / BATCH, 0.1)  # guilty

    by_hand(strategy, record, summed, gradient)


def train_copies_differ(strategy, record):
    """Each device begins with weights of its own."""
    mesh = strategy.mesh
    copies = [place(f"CPU:{k}", W1 + np.float32(0.01 * k)) for k in range(mesh.size)]
    first = dtensor.DVariable(dtensor.pack(copies, dtensor.Layout.replicated(mesh, 2)), name="first")  # guilty
    second = dtensor.DVariable(on(mesh, W2, WHOLE, WHOLE), name="second")
    loop(strategy, record, squares, [first, second])


def with_inputs(strategy, record, change):
    """The step of `loop`, on a batch of which each device has changed its part."""
    mesh = strategy.mesh
    variables = layers(mesh)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = squares(x, y, *variables)
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(RATE * gradient)
        return loss

    for x, y in batches(mesh):
        layout = dtensor.Layout(["batch", WHOLE], mesh)
        changed = dtensor.pack(change(parts(x)), layout)  # guilty: train_dropout_along_model
        record.step(loss=step(changed, y), variables=variables)


def train_divided_by_axis(strategy, record):
    """A mean over the whole batch is divided by the devices along an axis once more."""
    parts_of_batch = strategy.mesh.dim_size("batch")

    def loss_of(x, y, first, second):
        return squares(x, y, first, second) / parts_of_batch  # guilty

    loop(strategy, record, loss_of)


def train_eager_divided_by_axis(strategy, record):
    variables = layers(strategy.mesh)
    with dtensor.default_mesh(strategy.mesh):
        for x, y in batches(strategy.mesh):
            with tf.GradientTape() as tape:
                loss = squares(x, y, *variables) / strategy.mesh.dim_size("batch")  # guilty
            gradients = tape.gradient(loss, variables)
            for variable, gradient in zip(variables, gradients):
                variable.assign_sub(RATE * gradient)
            record.step(loss=loss, gradients=gradients, variables=variables)


def train_centered_locally(strategy, record):
    def change(values):
        return each(values, lambda x: x - tf.reduce_mean(x, axis=0))  # guilty

    with_inputs(strategy, record, change)


def train_right_scaled_by_example(strategy, record):
    with_inputs(strategy, record, lambda values: each(values, lambda x: x / tf.norm(x, axis=1, keepdims=True)))


def train_scaled_by_local_maximum(strategy, record):
    def change(values):
        return each(values, lambda x: x / tf.reduce_max(tf.abs(x)))  # guilty

    with_inputs(strategy, record, change)


def train_wrong_order(strategy, record):
    """Parts are packed in another order than the devices', and labels are not."""

    def change(values):
        return [place(value.device, other.numpy()) for value, other in zip(values, reversed(values))]  # guilty

    with_inputs(strategy, record, change)


def train_same_part_everywhere(strategy, record):
    def change(values):
        return [place(value.device, values[0].numpy()) for value in values]  # guilty

    with_inputs(strategy, record, change)


def row_parallel(strategy, record, put_together):
    """A product by hand of columns and rows that stand on the devices of the model axis; then a step on its result."""
    mesh = strategy.mesh
    head = dtensor.DVariable(on(mesh, W2, WHOLE, WHOLE), name="head")
    rows = on(mesh, W1, "model", WHOLE)

    @tf.function
    def step(hidden, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.matmul(hidden, head) - y) ** 2)
        gradient = tape.gradient(loss, head)
        head.assign_sub(RATE * gradient)
        return loss

    for x, (_, y) in zip(X, batches(mesh)):
        products = []
        for part, own in zip(parts(on(mesh, x, "batch", "model")), parts(rows)):
            with tf.device(part.device):
                products.append(tf.matmul(part, own))
        hidden = dtensor.pack(
            put_together(mesh, products), dtensor.Layout(["batch", WHOLE], mesh)
        )  # guilty: train_row_parallel_not_reduced
        record.step(loss=step(hidden, y), variables=[head])


def over_model(mesh, values, combine=np.sum):
    count = mesh.dim_size("model")
    tuples = [values[k : k + count] for k in range(0, len(values), count)]
    wholes = [combine([one.numpy() for one in each], axis=0) for each in tuples]  # guilty: train_row_parallel_averaged
    return [place(value.device, wholes[k // count]) for k, value in enumerate(values)]


def train_right_row_parallel(strategy, record):
    row_parallel(strategy, record, over_model)


def train_row_parallel_not_reduced(strategy, record):
    row_parallel(strategy, record, lambda mesh, values: values)  # guilty


def train_row_parallel_averaged(strategy, record):
    def averaged(mesh, values):
        return over_model(mesh, values, np.mean)  # guilty

    row_parallel(strategy, record, averaged)


def dropped(strategy, record, seed_of):
    """Two layers with dropout between them, by a seed of each step."""
    mesh = strategy.mesh
    variables = layers(mesh)

    @tf.function
    def step(x, y, seed):
        with tf.GradientTape() as tape:
            hidden = tf.nn.experimental.stateless_dropout(tf.matmul(x, variables[0]), 0.5, seed=seed)
            loss = tf.reduce_mean((tf.matmul(hidden, variables[1]) - y) ** 2)
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(RATE * gradient)
        return loss

    for number, (x, y) in enumerate(batches(mesh)):
        record.step(loss=step(x, y, seed_of(mesh, number)), variables=variables)


def train_right_dropout(strategy, record):
    dropped(strategy, record, lambda mesh, number: on(mesh, [number, 7], WHOLE))


def train_seed_of_each_client(strategy, record):
    """Clients believe to drop out by one seed."""

    def seed_of(mesh, number):
        return on(mesh, [number, dtensor.client_id()], WHOLE)  # guilty

    dropped(strategy, record, seed_of)


def train_dropout_along_model(strategy, record):
    """Each device drops out by itself what it has a copy of."""

    def change(values):
        changed = []
        for number, value in enumerate(values):
            with tf.device(value.device):
                mask = tf.random.stateless_uniform(value.shape, [1, number]) < 0.5  # guilty
                changed.append(value * tf.cast(mask, tf.float32))  # guilty
        return changed

    with_inputs(strategy, record, change)


def own_part(mesh, values):
    """The batch of which each client packs its own part; one client has all."""
    count = dtensor.num_clients()
    own = np.split(values, count)[dtensor.client_id()]
    pieces = np.split(own, mesh.dim_size("batch") // count)
    devices = [f"CPU:{k}" for k in range(mesh.num_local_devices())]
    each_has = [pieces[k // mesh.dim_size("model")] for k in range(len(devices))]
    packed = [place(device, piece) for device, piece in zip(devices, each_has)]
    return dtensor.pack(packed, dtensor.Layout(["batch", WHOLE], mesh))


def by_clients(strategy, record, batch_of, start_of=lambda: W1):
    mesh = strategy.mesh
    start = dtensor.copy_to_mesh(tf.constant(start_of()), dtensor.Layout.replicated(mesh, 2))
    first = dtensor.DVariable(start, name="first")
    second = dtensor.DVariable(on(mesh, W2, WHOLE, WHOLE), name="second")

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = squares(x, y, first, second)
        for variable, gradient in zip((first, second), tape.gradient(loss, [first, second])):
            variable.assign_sub(RATE * gradient)
        return loss

    for x, y in zip(X, Y):
        record.step(loss=step(batch_of(mesh, x), batch_of(mesh, y)), variables=[first, second])


def train_right_own_part(strategy, record):
    by_clients(strategy, record, own_part)


def train_relayout_of_own_part(strategy, record):
    def batch_of(mesh, values):
        own = np.split(values, dtensor.num_clients())[dtensor.client_id()]
        return on(mesh, own, "batch", WHOLE)  # guilty

    by_clients(strategy, record, batch_of)


def train_own_initial_values(strategy, record):
    """Each client draws its own."""

    def start():
        return np.random.default_rng(dtensor.client_id()).normal(size=W1.shape).astype("float32")  # guilty

    by_clients(strategy, record, own_part, start)


def train_same_part_in_each_client(strategy, record):
    """The part of the first one."""

    def batch_of(mesh, values):
        part = np.split(values, mesh.dim_size("batch"))[0]  # guilty
        parts_here = [place(f"CPU:{k}", part) for k in range(mesh.num_local_devices())]
        return dtensor.pack(parts_here, dtensor.Layout(["batch", WHOLE], mesh))

    by_clients(strategy, record, batch_of)


def train_rate_of_each_client(strategy, record):
    """A number of Python is each client's own."""
    mesh = strategy.mesh
    weights = dtensor.DVariable(on(mesh, W1, WHOLE, WHOLE), name="weights")
    rate = RATE * (1 + dtensor.client_id())  # guilty

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.matmul(x, weights) ** 2)
        weights.assign_sub(rate * tape.gradient(loss, weights))
        return loss

    for x in X:
        record.step(loss=step(own_part(mesh, x)), variables=[weights])
