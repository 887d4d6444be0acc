"""GPflow: a sparse variational Gaussian process, whose bound is estimated from parts of the data."""

# /// script
# dependencies = [
#   "check-shapes>=1", "deprecated", "multipledispatch", "tabulate", "scipy", "tensorflow-probability==0.25.0"
# ]
# [tool.lockstep]
# without-their-own = ["gpflow==2.11.2"]
# cases = ["train mirrored-2", "train multi_worker-2", "train_wrong mirrored-2 inconsistent loss_times_replicas"]
# ///

import gpflow
import numpy as np
import tensorflow as tf
import tf_keras

rng = np.random.default_rng(0)
X = rng.uniform(size=(64, 1))
Y = np.sin(6 * X) + 0.1 * rng.normal(size=(64, 1))


def train(strategy, record, share=None):
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(16)
    with strategy.scope():
        process = gpflow.models.SVGP(
            gpflow.kernels.SquaredExponential(), gpflow.likelihoods.Gaussian(), X[:8].copy(), num_data=64
        )
        optimizer = tf_keras.optimizers.Adam(0.01)
        optimizer.build(process.trainable_variables)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            # The bound counts each example of a batch for num_data / batch, so that of a replica estimates the whole.
            loss = process.training_loss((x, y)) / (share or strategy.num_replicas_in_sync)
        gradients = tape.gradient(loss, process.trainable_variables)
        optimizer.apply_gradients(zip(gradients, process.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(batch):
        return strategy.run(replica_step, args=batch)

    for batch in strategy.experimental_distribute_dataset(data):
        record.step(loss=step(batch), variables=process.trainable_variables)


def train_wrong(strategy, record):
    train(strategy, record, share=1)
