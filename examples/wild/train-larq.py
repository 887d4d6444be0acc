"""Larq: a binarized network, whose weights an optimizer of its own flips, by `fit`."""

# /// script
# dependencies = ["terminaltables>=3.1.0"]
# [tool.lockstep]
# without-their-own = ["larq==0.14.0"]
# environ = { TF_USE_LEGACY_KERAS = "1" }
# cases = ["fit mirrored-2", "fit multi_worker-2", "flip mirrored-2"]
# ///

import larq
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
X = np.sign(rng.normal(size=(64, 8))).astype("float32")
Y = rng.integers(0, 2, 64)


def fit(strategy, record, optimizer=lambda: tf.keras.optimizers.Adam(0.01), quantizer="ste_sign"):
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(16)
    with strategy.scope():
        first = larq.layers.QuantDense(
            16, kernel_quantizer=quantizer, kernel_constraint="weight_clip", input_shape=(8,)
        )
        second = larq.layers.QuantDense(16, input_quantizer="ste_sign", kernel_quantizer=quantizer)
        model = tf.keras.Sequential([first, second, tf.keras.layers.Dense(2)])
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=optimizer(), loss=loss)
    model.fit(data, verbose=0)


def flip(strategy, record):
    def optimizer():
        others = tf.keras.optimizers.legacy.Adam(0.01)
        bop = larq.optimizers.Bop(threshold=1e-6, gamma=1e-2)
        return larq.optimizers.CaseOptimizer((larq.optimizers.Bop.is_binary_variable, bop), default_optimizer=others)

    fit(strategy, record, optimizer, larq.quantizers.NoOp(precision=1))
