"""DeepCTR: DeepFM, which predicts clicks, by `fit`."""

# /// script
# dependencies = ["deepctr==0.9.4"]
# [tool.lockstep]
# environ = { TF_USE_LEGACY_KERAS = "1" }
# cases = ["fit mirrored-2", "fit multi_worker-2"]
# ///

import numpy as np
import tensorflow as tf
from deepctr.feature_column import DenseFeat, SparseFeat
from deepctr.models import DeepFM

rng = np.random.default_rng(0)
DATA = {
    "user": rng.integers(0, 20, 64),
    "item": rng.integers(0, 30, 64),
    "price": rng.random((64, 1)).astype("float32"),
}
CLICKS = rng.integers(0, 2, (64, 1))
COLUMNS = [SparseFeat("user", 20, 4), SparseFeat("item", 30, 4), DenseFeat("price", 1)]


def fit(strategy, record):
    data = tf.data.Dataset.from_tensor_slices((DATA, CLICKS)).batch(16)
    with strategy.scope():
        model = DeepFM(COLUMNS, COLUMNS, dnn_hidden_units=(8, 8), l2_reg_embedding=1e-2, l2_reg_dnn=1e-2)
        model.compile(tf.keras.optimizers.Adam(1e-2), "binary_crossentropy")
    model.fit(data, verbose=0)
