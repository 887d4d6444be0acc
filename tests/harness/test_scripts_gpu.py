"""Unmodified scripts on simulated GPUs: judged as on CPUs, with what they computed on."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import verify

_SCRIPT = """\
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
x = np.random.default_rng(0).standard_normal((48, 4)).astype("f4")
batches = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(12)
with strategy.scope():
    w = tf.Variable(tf.zeros((4, 1)), name="w", aggregation=tf.VariableAggregation.SUM)


def replica_step(x, y):
    with tf.GradientTape() as tape:
        loss = {loss}
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss


@tf.function
def train_step(x, y):
    return strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None)


for batch in strategy.experimental_distribute_dataset(batches):
    train_step(*batch)
"""


@pytest.mark.full
@pytest.mark.usefixtures("simulated_gpu")
@pytest.mark.parametrize(
    ("loss", "outcome"),
    [("tf.reduce_sum((x @ w - y) ** 2) / 12", "consistent"), ("tf.reduce_mean((x @ w - y) ** 2)", "inconsistent")],
)
def test_a_script_is_verified_on_simulated_gpus(loss: str, outcome: str, tmp_path: Path) -> None:
    """It takes both by itself; a loss that is a mean of each replica's is found there too."""
    script = tmp_path / "train.py"
    script.write_text(_SCRIPT.format(loss=loss))
    verdict = verify(["python", str(script)], "mirrored-2", hardware="gpu-simulated", explain=False)
    assert verdict.outcome == outcome, str(verdict)
    assert [device[:22] for device in verdict.tasks["local:0"]["devices"]] == [
        "GPU 0: SIMULATED GPU 0",
        "GPU 1: SIMULATED GPU 1",
    ]
    placed = next(law for law in verdict.judgements if law.law == "placed_on_devices")
    assert (placed.status, placed.compared) == ("held", 2)
