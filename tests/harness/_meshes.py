"""Programs on a mesh that are judged otherwise than by their numbers alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

_X = np.random.default_rng(3).normal(size=(2, 8, 4)).astype("float32")


def _on(mesh: Any, value: Any, *axes: str) -> Any:
    return dtensor.relayout(tf.constant(value), dtensor.Layout(list(axes), mesh))


def drops(strategy: Any, record: Any) -> None:
    """A right step that drops out: which elements, depends on the mesh."""
    mesh, whole = strategy.mesh, dtensor.UNSHARDED
    weights = dtensor.DVariable(_on(mesh, np.ones([4, 2], np.float32), whole, whole), name="weights")

    @tf.function
    def step(x: Any, seed: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.experimental.stateless_dropout(tf.matmul(x, weights), 0.5, seed=seed) ** 2)
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        return loss

    for number, x in enumerate(_X):
        loss = step(_on(mesh, x, "batch", whole), _on(mesh, [number, 7], whole))
        record.step(loss=loss, variables=[weights])
