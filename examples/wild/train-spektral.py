"""Spektral: graph convolutions that classify graphs, by `fit`."""

# /// script
# dependencies = ["spektral==1.3.1"]
# [tool.lockstep]
# environ = { TF_USE_LEGACY_KERAS = "1" }
# cases = ["fit mirrored-2", "fit multi_worker-2"]
# ///

import numpy as np
import tensorflow as tf
from spektral.layers import GCNConv, GlobalAttentionPool
from spektral.utils import gcn_filter

rng = np.random.default_rng(0)
NODES = rng.normal(size=(64, 6, 3)).astype("float32")
EDGES = rng.integers(0, 2, (64, 6, 6)).astype("float32")
EDGES = gcn_filter(np.maximum(EDGES, EDGES.transpose(0, 2, 1)))
CLASSES = rng.integers(0, 2, 64)


def fit(strategy, record):
    data = tf.data.Dataset.from_tensor_slices(((NODES, EDGES), CLASSES)).batch(16)
    with strategy.scope():
        nodes, edges = tf.keras.Input((6, 3)), tf.keras.Input((6, 6))
        hidden = GCNConv(8, "relu", kernel_regularizer=tf.keras.regularizers.L2(1e-2))([nodes, edges])
        hidden = GlobalAttentionPool(8)(GCNConv(8, "relu")([hidden, edges]))
        model = tf.keras.Model([nodes, edges], tf.keras.layers.Dense(2)(hidden))
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss=loss)
    model.fit(data, verbose=0)
