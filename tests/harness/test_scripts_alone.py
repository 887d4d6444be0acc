"""Scripts that cannot train together, or do not: what is wrong is said with the line and what to do."""

from __future__ import annotations

import pytest

from simulator import RunFailed, UsageError
from tests.harness._loop import Verified

_HEAD = """
import sys
import keras
import numpy as np
import tensorflow as tf
x = np.random.default_rng(1).normal(size=(32, 3)).astype("float32")
"""

_EACH = """
strategy = tf.distribute.MirroredStrategy()
"""

_ONE_DEVICE = """
with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
    w = tf.Variable(tf.ones(3))
"""

_NONE = """
w = tf.Variable(tf.ones(3))
"""

_LATE = """
mean = tf.reduce_mean(tf.constant([1.0, 3.0]))  # too early
strategy = tf.distribute.MultiWorkerMirroredStrategy()
"""

_TOLD = """
import json, os

told = json.loads(os.environ["TF_CONFIG"])
told["cluster"] = {"worker": ["localhost:12345", "localhost:23456"]}
os.environ["TF_CONFIG"] = json.dumps(told)
tf.distribute.MultiWorkerMirroredStrategy()
"""

_COMPILED = """
strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), loss="mse")  # outside
model.fit(x, x.sum(axis=1, keepdims=True), verbose=0)
"""


@pytest.mark.parametrize(
    ("body", "strategy", "said"),
    [
        (_COMPILED, "mirrored-2", "train.py:11 compiles a model outside of strategy.scope()"),
        *(
            pytest.param(body, "multi_worker-2", said, marks=pytest.mark.full)
            for body, said in [
                (_TOLD, "builds CollectiveAllReduceStrategy after TF_CONFIG was set to another cluster than this one"),
                (
                    _LATE,
                    "train.py:8 has TensorFlow compute something, and CollectiveAllReduceStrategy is built after that",
                ),
            ]
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(body: str, strategy: str, said: str, verified: Verified) -> None:
    """In place of what TensorFlow says, or of a green for trainings that never met."""
    with pytest.raises(RunFailed) as failed:
        verified(_HEAD + body, strategy, explain=False, prove=False)
    assert said in str(failed.value)


@pytest.mark.parametrize(
    ("body", "strategy", "said"),
    [
        (_NONE, "mirrored-2", "has built no strategy; build a tf.distribute.Strategy"),
        (_ONE_DEVICE, "mirrored-2", "has no strategy but OneDeviceStrategy, which is not what mirrored-2 is"),
        *(
            pytest.param(body, "multi_worker-2", said, marks=pytest.mark.full)
            for body, said in [
                (_NONE, "has built no strategy, so that each of the 2 workers trains alone; build a tf.distribute.M"),
                (_EACH, "has no strategy but MirroredStrategy, so that each of the 2 workers trains alone; build a tf"),
            ]
        ),
    ],
)
def test_a_script_without_its_strategy_is_a_usage_error(
    body: str, strategy: str, said: str, verified: Verified
) -> None:
    """There is nothing to verify, and no task has failed."""
    with pytest.raises(UsageError, match=said):
        verified(_HEAD + body, strategy, explain=False, prove=False)


_LOADED = """
one = tf.distribute.OneDeviceStrategy("/cpu:0")
strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
model.fit(x, x.sum(axis=1, keepdims=True), shuffle=False, verbose=0)
model.save("model.keras")
with SCOPE.scope():
    model = keras.models.load_model("model.keras")
model.fit(x, x.sum(axis=1, keepdims=True), shuffle=False, verbose=0)
"""


@pytest.mark.full
@pytest.mark.parametrize("scope", ["strategy", "one"])
def test_a_model_that_is_loaded_trains_on(scope: str, verified: Verified) -> None:
    """Keras asks whether its own `compile` is the model's, which whoever looks at it must not change.

    A strategy of another kind is the script's own affair, if it has one that was asked for.
    """
    assert verified(_HEAD + _LOADED.replace("SCOPE", scope), "mirrored-2", explain=False, prove=False)
