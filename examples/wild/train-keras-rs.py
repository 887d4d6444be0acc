"""KerasRS: a Deep & Cross network that ranks, and two towers with in-batch negatives that retrieve."""

# /// script
# dependencies = ["keras-rs==0.4.0"]
# [tool.lockstep]
# cases = ["rank mirrored-2", "rank multi_worker-2", "retrieve mirrored-2 inconsistent keras.ops.matmul"]
# ///

import keras
import keras_rs
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
USERS, ITEMS = rng.integers(0, 20, 64), rng.integers(0, 30, 64)
RATINGS = rng.normal(size=64).astype("float32")


class TwoTowers(keras.Model):
    def __init__(self):
        super().__init__()
        self.users, self.items = keras.layers.Embedding(20, 8), keras.layers.Embedding(30, 8)
        self.corrected = keras_rs.layers.RemoveAccidentalHits()

    def call(self, inputs):
        users, items = inputs
        scores = keras.ops.matmul(self.users(users), keras.ops.transpose(self.items(items)))
        return self.corrected(scores, keras.ops.eye(keras.ops.shape(items)[0]), candidate_ids=items)


def retrieve(strategy, record):
    with strategy.scope():
        model = TwoTowers()
        loss = lambda _, scores: -tf.linalg.diag_part(tf.nn.log_softmax(scores))  # noqa: E731
        model.compile(optimizer=keras.optimizers.Adagrad(0.1), loss=loss, jit_compile=False)
    model.fit([USERS, ITEMS], RATINGS, batch_size=16, shuffle=False, verbose=0)


def rank(strategy, record):
    data = tf.data.Dataset.from_tensor_slices(((USERS, ITEMS), RATINGS)).batch(16)
    with strategy.scope():
        users, items = keras.Input((), dtype="int32"), keras.Input((), dtype="int32")
        x0 = keras.layers.Concatenate()([keras.layers.Embedding(20, 8)(users), keras.layers.Embedding(30, 8)(items)])
        x = keras_rs.layers.FeatureCross(projection_dim=4)(x0, keras_rs.layers.FeatureCross(projection_dim=4)(x0, x0))
        model = keras.Model([users, items], keras.layers.Dense(1)(x))
        optimizer = keras.optimizers.Adagrad(0.1)
        optimizer.build(model.trainable_variables)

    @tf.function
    def step(batch):
        strategy.run(replica_step, args=batch)

    def replica_step(ids, ratings):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss((model(ids)[:, 0] - ratings) ** 2, global_batch_size=16)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    for batch in strategy.experimental_distribute_dataset(data):
        step(batch)
        record.step(variables=[*model.variables, *optimizer.variables])
