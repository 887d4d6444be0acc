"""TensorFlow Model Optimization: a model that is pruned while it trains, and one that is trained to be quantized."""

# /// script
# dependencies = ["tensorflow-model-optimization==0.8.1"]
# [tool.lockstep]
# environ = { TF_USE_LEGACY_KERAS = "1" }
# cases = ["prune mirrored-2", "prune multi_worker-2", "quantize mirrored-2 inconsistent replicas_agree"]
# ///

import numpy as np
import tensorflow as tf
import tensorflow_model_optimization as tfmot
import tf_keras

rng = np.random.default_rng(0)
X = rng.normal(size=(64, 8)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


def pruned(model):
    schedule = tfmot.sparsity.keras.PolynomialDecay(0.2, 0.8, begin_step=0, end_step=8, frequency=2)
    return tfmot.sparsity.keras.prune_low_magnitude(model, schedule)


def fit(strategy, prepared, callbacks=()):
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(16)
    with strategy.scope():
        layers = [tf_keras.layers.Dense(16, "relu", input_shape=(8,)), tf_keras.layers.Dense(1)]
        model = prepared(tf_keras.Sequential(layers))
        model.compile(optimizer=tf_keras.optimizers.SGD(0.01), loss="mse")
    model.fit(data, epochs=2, verbose=0, callbacks=list(callbacks))


def prune(strategy, record):
    fit(strategy, pruned, [tfmot.sparsity.keras.UpdatePruningStep()])


def quantize(strategy, record):
    fit(strategy, tfmot.quantization.keras.quantize_model)
