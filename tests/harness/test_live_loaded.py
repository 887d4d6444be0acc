"""A start that loads its model is judged, though Keras calls the variables of that otherwise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.evidence.loaded_names import names_of_built
from tests.harness._called import lockstep

_SCRIPT = """import os
import sys

import keras
import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
keras.utils.set_random_seed(1)
is_loaded = os.path.exists("saved.keras")
with strategy.scope():
    if is_loaded and "weights" not in sys.argv:
        model = keras.models.load_model("saved.keras")
    else:
        model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse")
    if is_loaded and "weights" in sys.argv:
        model.load_weights("saved.keras")
        optimizer = keras.optimizers.Adam(0.05)
    elif is_loaded and "anew" in sys.argv:
        optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    else:
        optimizer = model.optimizer
    optimizer.build(model.trainable_variables)
divisor = 4 if is_loaded and "wrong" in sys.argv else 8


def one(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((model(x) - 1.0) ** 2) / divisor
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


@tf.function
def step(x):
    strategy.run(one, args=(x,))


rows = np.random.default_rng(1).normal(size=(8 * 9, 3)).astype("f4")
for x in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(rows).batch(8)):
    step(x)
if not is_loaded:
    model.save("saved.keras")
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("how", "outcome"),
    [("", "consistent"), ("wrong", "inconsistent"), ("anew", "abstained"), ("weights", "abstained")],
)
def test_a_start_that_loads_its_model(how: str, outcome: str, here: Path) -> None:
    """All that it trains is compared; with an optimizer that only this start has it cannot be."""
    Path("train.py").write_text(_SCRIPT)
    watch = (sys.executable, "-m", "harness.watch", "--every", "4", "--out", "left", "train.py", *how.split())
    for _ in range(2):
        subprocess.run(watch, check=True, timeout=300)
    Path("saved.keras").unlink()
    said = lockstep("judge", "left", "--json", code=1 if outcome == "inconsistent" else 0).stdout
    steps = list(map(json.loads, said.splitlines()))
    assert [each["outcome"] for each in steps if not each["training"]] == ["consistent"] * 3
    assert {each["outcome"] for each in steps if each["training"]} == {outcome}
    assert all("judge's script has no variable" in each["why"] for each in steps if each["outcome"] == "abstained")


@pytest.mark.parametrize(
    ("loaded", "built", "names"),
    [
        ("d/w d/b", "m/d/w m/d/b", {"d/w": "m/d/w", "d/b": "m/d/b"}),
        ("m/d/w", "d/w", {"m/d/w": "d/w"}),
        ("adam/d_w_momentum", "adam/m_d_w_momentum", {"adam/d_w_momentum": "adam/m_d_w_momentum"}),
        ("adam_1/d_w_momentum", "adam/m_d_w_momentum", {}),  # it was made anew
        ("d/w e/w", "m/e/w m/d/w", {}),  # in another order
        ("d/w", "m/dd/w", {}),
        ("d/w e/w", "m/d/w", {}),  # not as many
    ],
)
def test_only_names_that_end_alike_are_one(loaded: str, built: str, names: dict[str, str]) -> None:
    """Models put their own before those of their layers, and optimizers theirs before both."""
    assert names_of_built([(name, ()) for name in loaded.split()], [(name, ()) for name in built.split()]) == names
