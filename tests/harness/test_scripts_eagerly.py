"""Scripts whose `fit` runs eagerly."""

from __future__ import annotations

import pytest

from tests.harness._loop import Verified

_SCRIPT = """
import sys

import numpy as np
import tensorflow as tf
import tf_keras


class Model(tf_keras.Sequential):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None):
        replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
        return super().compute_loss(x, y, y_pred, sample_weight) * (1.0 + ("wrong" in sys.argv) * replica)


strategy = tf.distribute.MirroredStrategy()
x = np.random.default_rng(5).normal(size=(48, 4)).astype("float32") + 1
with strategy.scope():
    layers = [tf_keras.Input((4,)), tf_keras.layers.Dense(3), tf_keras.layers.BatchNormalization(synchronized=True)]
    model = Model([*layers, tf_keras.layers.Dense(1)])
    model.compile(tf_keras.optimizers.Adam(0.05), "mse", run_eagerly=True)
model.fit(x, x[:, :1], batch_size=16, epochs=2, verbose=0)
"""


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_an_eager_step_of_keras_begins_with_its_call(verified: Verified, wrong: bool) -> None:
    """It makes a new function for each, in which statistics change before a tape is asked."""
    verdict = verified(_SCRIPT, "mirrored-2", *["wrong"] * wrong, prove=False)
    assert verdict.outcome == ("inconsistent" if wrong else "consistent"), str(verdict)
