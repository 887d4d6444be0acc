"""TensorFlow Recommenders: a ranking model with and without a regularizer, and a retrieval model, by `fit`."""

# /// script
# dependencies = ["tensorflow-recommenders==0.7.7"]
# [tool.lockstep]
# environ = { TF_USE_LEGACY_KERAS = "1" }
# cases = [
#   "rank mirrored-2", "rank multi_worker-2", "regularized mirrored-2 inconsistent models/base.py",
#   "retrieve mirrored-2 inconsistent tasks/retrieval.py",
# ]
# ///

import numpy as np
import tensorflow as tf
import tensorflow_recommenders as tfrs

rng = np.random.default_rng(0)
DATA = {"user": rng.integers(0, 20, 64), "item": rng.integers(0, 30, 64)}
RATINGS = rng.normal(size=64).astype("float32")


class Ranker(tfrs.Model):
    def __init__(self, regularizer=None):
        super().__init__()
        self.users = tf.keras.layers.Embedding(20, 8)
        self.items = tf.keras.layers.Embedding(30, 8)
        self.cross = tfrs.layers.dcn.Cross(kernel_regularizer=regularizer)
        self.rating = tf.keras.layers.Dense(1)
        self.task = tfrs.tasks.Ranking(loss=tf.keras.losses.MeanSquaredError(reduction="sum"))

    def compute_loss(self, inputs, training=False):
        features, ratings = inputs
        x = tf.concat([self.users(features["user"]), self.items(features["item"])], axis=1)
        return self.task(labels=ratings[:, None], predictions=self.rating(self.cross(x)))


class Retriever(tfrs.Model):
    def __init__(self):
        super().__init__()
        self.users, self.items = tf.keras.layers.Embedding(20, 8), tf.keras.layers.Embedding(30, 8)
        self.task = tfrs.tasks.Retrieval()

    def compute_loss(self, inputs, training=False):
        return self.task(self.users(inputs[0]["user"]), self.items(inputs[0]["item"]))


def rank(strategy, record, model_of=Ranker):
    data = tf.data.Dataset.from_tensor_slices((DATA, RATINGS)).batch(16)
    with strategy.scope():
        model = model_of()
        model.compile(optimizer=tf.keras.optimizers.Adagrad(0.1))
    model.fit(data, verbose=0)


def regularized(strategy, record):
    rank(strategy, record, lambda: Ranker(tf.keras.regularizers.L2(0.1)))


def retrieve(strategy, record):
    rank(strategy, record, Retriever)
