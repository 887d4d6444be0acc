"""TensorFlow Probability: regression to a distribution, and a layer whose KL divergence is part of the loss."""

# /// script
# dependencies = ["tensorflow-probability==0.25.0"]
# [tool.lockstep]
# environ = { TF_USE_LEGACY_KERAS = "1" }
# cases = ["regression mirrored-2", "regression multi_worker-2", "bayesian mirrored-2"]
# ///

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

tfd, tfpl = tfp.distributions, tfp.layers
rng = np.random.default_rng(0)
X = rng.normal(size=(64, 4)).astype("float32")
Y = (X.sum(axis=1, keepdims=True) + 0.1 * rng.normal(size=(64, 1))).astype("float32")


def normal(parameters):
    return tfd.Normal(parameters[..., :1], 1e-3 + tf.math.softplus(parameters[..., 1:]))


def regression(strategy, record, hidden=None):
    hidden = hidden or (lambda: tf.keras.layers.Dense(8, "tanh"))
    with strategy.scope():
        layers = [hidden(), tf.keras.layers.Dense(2), tfpl.DistributionLambda(normal, tfd.Distribution.mean)]
        model = tf.keras.Sequential([tf.keras.Input((4,)), *layers])
        model.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss=lambda y, found: -found.log_prob(y))
    model.fit(X, Y, batch_size=16, shuffle=False, verbose=0)


def mean_of_posterior(kernel_size, bias_size=0, dtype=None):
    size = kernel_size + bias_size
    return tf.keras.Sequential(
        [
            tfpl.VariableLayer(2 * size, dtype=dtype, initializer="zeros"),
            tfpl.DistributionLambda(
                lambda t: tfd.Independent(tfd.Normal(t[:size], 1e-2 + tf.nn.softplus(t[size:])), 1),
                tfd.Distribution.mean,
            ),
        ]
    )


def prior(kernel_size, bias_size=0, dtype=None):
    size = kernel_size + bias_size
    return lambda _: tfd.Independent(tfd.Normal(tf.zeros(size), 1.0), 1)


def bayesian(strategy, record):
    regression(strategy, record, lambda: tfpl.DenseVariational(8, mean_of_posterior, prior, 1 / 64, True))
