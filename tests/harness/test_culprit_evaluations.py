"""An evaluation that is wrong has the line that made it so, as a step has."""

from __future__ import annotations

import pytest

from tests._present import present
from tests.harness._loop import Verified

_SCRIPT = """
import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
x = np.random.default_rng(3).normal(size=(21, 5)).astype("float32")
y = x.sum(axis=1, keepdims=True)
with strategy.scope():
    w = tf.Variable(tf.ones([5, 1]), name="w")
    optimizer = keras.optimizers.SGD(0.05)
    optimizer.build([w])
data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(8))

def losses_of(x, y):
    return tf.reduce_sum((x @ w * 2 - y) ** 2, axis=1)

def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(losses_of(x, y), global_batch_size=8)
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])

def evaluate(x, y):
    losses = losses_of(x, y)
    return tf.reduce_sum(losses) / 21  # each replica's

@tf.function
def train(batch):
    strategy.run(step, args=batch)

@tf.function
def measured(batch):
    parts = strategy.run(evaluate, args=batch)
    return strategy.reduce("SUM", parts, axis=None)  # what is given back

for batch in data:
    train(batch)
total = 0.0
for batch in data:
    total += measured(batch)  # what is read
print(float(total))
"""
_SUM = 'strategy.reduce("SUM", parts, axis=None)'


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ((), None),
        pytest.param(
            (
                (f"return {_SUM}", "return parts"),
                ("+= measured(batch)", f"+= {_SUM.replace('parts', 'measured(batch)')}"),
            ),
            None,
            marks=pytest.mark.full,
        ),
        ((("tf.reduce_sum(losses) / 21", "tf.reduce_mean(losses)"), ('"SUM"', '"MEAN"')), "# each replica's"),
        pytest.param(
            (
                ("tf.reduce_sum(losses) / 21", "tf.reduce_mean(losses)"),
                (f"return {_SUM}", "return parts"),
                ("+= measured(batch)", '+= strategy.reduce("MEAN", measured(batch), axis=None)'),
            ),
            "# each replica's",
            marks=pytest.mark.full,
        ),
        pytest.param(
            ((_SUM, "strategy.experimental_local_results(parts)[0]"),), "# what is given back", marks=pytest.mark.full
        ),
    ],
)
def test_the_line_of_an_evaluation(verified: Verified, changes: tuple[tuple[str, str], ...], line: str | None) -> None:
    """Nothing that is trained shows it: of the last batch one replica has three examples, and the other one two."""
    script = _SCRIPT
    for right, wrong in changes:
        assert right in script
        script = script.replace(right, wrong)
    verdict = verified(script, "mirrored-2", explain=line is not None, prove=False)
    assert verdict.consistent is (line is None), str(verdict)
    if line is not None:
        assert {each.law for each in verdict.findings} == {"evaluations_match_reference"}
        assert present(verdict.culprit).source.endswith(line), str(verdict)


_LOGGED = """
import numpy as np
import tensorflow as tf
import tf_keras as keras

strategy = tf.distribute.MirroredStrategy()
x = np.random.default_rng(3).normal(size=(24, 5)).astype("float32")

class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((self(x) - y) ** 2) / 8
        self.optimizer.minimize(loss, self.trainable_variables, tape=tape)
        return {"loss": loss * tf.distribute.get_replica_context().num_replicas_in_sync}

keras.utils.set_random_seed(0)
with strategy.scope():
    model = Model()
    model.compile(optimizer="sgd")
model.fit(x, x[:, :1], batch_size=8, verbose=0, shuffle=False)
"""


@pytest.mark.full
def test_the_line_of_a_loss_that_fit_logs(verified: Verified) -> None:
    """tf_keras adds up what the replicas' `train_step` gives, and the script reports nothing."""
    verdict = verified(_LOGGED, "mirrored-2", explain=True, prove=False)
    assert {each.law for each in verdict.findings} == {"loss_matches_reference"}, str(verdict)
    assert "num_replicas_in_sync" in present(verdict.culprit).source, str(verdict)
