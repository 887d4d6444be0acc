"""BayesFlow: a normalizing flow that estimates a posterior, by the approximator's own training step."""

# /// script
# dependencies = ["bayesflow==2.0.12"]
# [tool.lockstep]
# environ = { KERAS_BACKEND = "tensorflow" }
# cases = ["fit mirrored-2 inconsistent loss_times_replicas"]
# ///

import bayesflow as bf
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
THETA = rng.normal(size=(64, 4)).astype("float32")
SEEN = (THETA + 0.1 * rng.normal(size=(64, 4))).astype("float32")


def fit(strategy, record):
    data = tf.data.Dataset.from_tensor_slices({"inference_variables": THETA, "inference_conditions": SEEN}).batch(16)
    with strategy.scope():
        flow = bf.networks.CouplingFlow(depth=2, permutation="swap", subnet_kwargs={"widths": (8,), "dropout": 0.0})
        model = bf.approximators.ContinuousApproximator(inference_network=flow, standardize=None)
        model.build({"inference_variables": (16, 4), "inference_conditions": (16, 4)})
        model.compile(optimizer=keras.optimizers.SGD(0.01))
    model.fit(dataset=data, verbose=0, callbacks=[record.keras_callback(model)])
