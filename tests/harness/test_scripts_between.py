"""What a script that is killed does between its steps: judged like the steps, though each is looked at as it ends."""

from __future__ import annotations

import pytest

from harness import Verdict
from tests.harness._loop import Verified

_REMEMBERING = """
import json
import os
import sys

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(5)
x, y = rng.normal(size=(32, 4)).astype("float32"), rng.normal(size=(32, 1)).astype("float32")


class Slower(keras.callbacks.ReduceLROnPlateau):
    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        if "keep" in sys.argv and os.path.exists("memory.json"):
            self.wait, self.best = json.load(open("memory.json"))

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        if "keep" in sys.argv:
            json.dump([self.wait, self.best], open("memory.json", "w"))


strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse")
slower = Slower(monitor="loss", patience=3, min_delta=10.0)
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
model.fit(data, epochs=6, verbose=0, callbacks=[slower, keras.callbacks.BackupAndRestore("backup")])
"""


@pytest.fixture
def keeping(verified: Verified) -> Verified:
    """Verifies a script that is interrupted, and is right where it has what to `keep`."""

    def keeping(script: str, *, interrupt_at: int, keep: bool) -> Verdict:
        words = ["keep"] if keep else []
        verdict = verified(script, "mirrored-2", *words, interrupt_at=interrupt_at, explain=False, prove=False)
        assert verdict.outcome == ("consistent" if keep else "inconsistent"), str(verdict)
        return verdict

    return keeping


@pytest.mark.full
@pytest.mark.parametrize("keep", [False, True])
def test_what_a_callback_remembers_is_named_where_a_restart_loses_it(keeping: Verified, keep: bool) -> None:
    """The rate that it sets changes between steps only, and stays the run's in each of them."""
    verdict = keeping(_REMEMBERING, interrupt_at=5, keep=keep)
    if not keep:
        assert {each.law for each in verdict.findings} == {"begins_alike"}
        assert verdict.explanation is not None
        assert verdict.explanation.rule == "state_not_restored"
        assert "'Slower.wait' is 0 after the restart where it was 1" in " ".join(verdict.explanation.text.split())


_AVERAGING = """
import sys

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    w = tf.Variable([0.5], aggregation=tf.VariableAggregation.SUM)
    done, average = tf.Variable(0), tf.Variable([0.5])
found = {"w": w, "done": done, "average": average}
kept = np.array([0.5], "float32")
checkpoint = tf.train.Checkpoint(**found)
if latest := tf.train.latest_checkpoint("saved"):
    checkpoint.restore(latest)
    if "keep" in sys.argv:
        kept = average.numpy()


@tf.function
def step(x):
    def replica_step(x):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss((w - x) ** 2, global_batch_size=2)
        w.assign_sub(0.1 * tape.gradient(loss, w))

    strategy.run(replica_step, (x,))


data = tf.data.Dataset.range(12).map(lambda i: tf.cast(i, tf.float32)).batch(2).skip(int(done.numpy()))
for x in strategy.experimental_distribute_dataset(data):
    step(x)
    kept = 0.8 * kept + 0.2 * w.numpy()
    done.assign_add(1)
    average.assign(kept if "keep" in sys.argv else average)
    checkpoint.save("saved/c")
w.assign(kept)
"""


@pytest.mark.full
@pytest.mark.parametrize("keep", [False, True])
def test_what_a_script_does_after_its_last_step_is_judged(keeping: Verified, keep: bool) -> None:
    """An average of weights in NumPy, which a restart loses, shows only where the weights are set to it."""
    verdict = keeping(_AVERAGING, interrupt_at=3, keep=keep)
    if not keep:
        assert {each.law for each in verdict.findings} == {"begins_alike"}
        assert "at the end, after step 6, variable" in verdict.findings[0].text


_LOADING = """
import glob
import sys

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(5)
x, y = rng.normal(size=(32, 4)).astype("float32"), rng.normal(size=(32, 1)).astype("float32")
saved = sorted(glob.glob("m-*.keras"))
with tf.distribute.MirroredStrategy().scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    if saved:
        model = keras.models.load_model(saved[-1], compile="keep" in sys.argv)
    if not model.compiled:
        model.compile(keras.optimizers.Adam(0.05), "mse")
saving = keras.callbacks.ModelCheckpoint("m-{epoch}.keras")
model.fit(x, y, batch_size=16, shuffle=False, epochs=3, initial_epoch=len(saved), verbose=0, callbacks=[saving])
"""


@pytest.mark.full
@pytest.mark.parametrize("keep", [False, True])
def test_a_model_that_is_loaded_is_compared(keeping: Verified, keep: bool) -> None:
    """Keras names its variables otherwise; the one that it replaces has their names, and is of no use any more."""
    verdict = keeping(_LOADING, interrupt_at=3, keep=keep)
    if not keep:
        assert verdict.explanation is not None
        assert verdict.explanation.rule == "slots_not_restored"
