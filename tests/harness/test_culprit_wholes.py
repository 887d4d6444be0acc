"""The line of a mistake beside what each replica has for itself: the reference has as many replicas, each a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness import verify
from harness.evidence.watched_step import WatchedStep
from harness.judging.culprit import Culprit, find_culprit
from tests.harness._watched import Steps

_X = np.random.default_rng(3).normal(size=(8, 4)).astype(np.float32)
_W = np.array([0.5, -1.0, 2.0, 0.25], np.float32)
_SHARES = (_X[:4], _X[4:])
_DRAWN = np.random.default_rng(4).normal(size=(2, 4)).astype(np.float32)


def _trained(*shares: np.ndarray, rows: float, times: float, factor: float = 1.0) -> WatchedStep:
    """A step with weights that each replica draws, a loss that is divided by `rows`, and a term of the weights."""
    steps = Steps(shares, _X)
    drawn = iter(_DRAWN)
    w = steps.read(2, "w", [_W] * steps.replicas)
    own = steps.each("AddV2", 3, lambda w: w + next(drawn), w)
    outputs = steps.each("MatMul", 4, lambda x, w: x @ w, steps.batch, own)
    losses = steps.each("Mean", 5, lambda out: np.float32(np.sum(out**2) / (rows or len(out))), outputs)
    term = steps.each("Mul", 6, lambda w: np.float32(times * np.sum(w**2)), w)
    total = steps.each("AddV2", 7, lambda a, b: a + b, losses, term)
    steps.assign(8, "w", steps.summed(8, total, factor))
    return steps.watched(1)


@pytest.mark.parametrize(
    ("rows", "times", "line"),
    [
        (8.0, 0.005, None),  # a sum over the replicas of parts
        (0.0, 0.005, 5),  # each replica's mean is over its own rows
        (8.0, 0.01, 7),  # each adds the whole of the term
    ],
)
def test_a_mistake_beside_own_draws_has_its_line(rows: float, times: float, line: int | None) -> None:
    """And the draws have none, though no single device has them."""
    run = _trained(*_SHARES, rows=rows, times=times)
    twice = [np.concatenate([share, share]) for share in _SHARES]
    found = find_culprit([run], _trained(*twice, rows=8.0, times=0.01, factor=0.5), [], wholes=True)
    assert (found.line if isinstance(found, Culprit) else None) == line, found


_BAYES = """
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
x = np.random.default_rng(0).normal(size=(48, 6)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1] * 2)).batch(16)
with strategy.scope():
    mean = tf.Variable(tf.ones([6, 1]) * 0.1)
    spread = tf.Variable(tf.fill([6, 1], -3.0))
    optimizer = tf.keras.optimizers.SGD(0.05)
    optimizer.build([mean, spread])

@tf.function
def train_step(batch):
    def step(x, y):
        with tf.GradientTape() as tape:
            weights = mean + tf.nn.softplus(spread) * tf.random.normal([6, 1])
            loss = tf.reduce_mean((y - x @ weights) ** 2)  # guilty
        gradients = tape.gradient(loss, [mean, spread])
        optimizer.apply_gradients(zip(gradients, [mean, spread]))
        return loss
    return strategy.reduce("SUM", strategy.run(step, batch), axis=None)

for batch in strategy.experimental_distribute_dataset(data):
    train_step(batch)
"""


@pytest.mark.full
def test_a_script_that_draws_its_weights_has_the_line_of_its_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Bayes by backprop does; before, the line of the draw was found and no line was named."""
    (tmp_path / "train.py").write_text(_BAYES)
    monkeypatch.chdir(tmp_path)
    verdict = verify(["python", "train.py"], "mirrored-2", explain=True, prove=False)
    assert verdict.culprit is not None, str(verdict)
    assert _BAYES.splitlines()[verdict.culprit.line - 1].endswith("# guilty")


_TWO_KINDS = """
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
x = tf.random.stateless_normal([48, 3], seed=[1, 2])
with strategy.scope():
    v, w = tf.Variable(tf.ones([3, 1])), tf.Variable(tf.ones([4, 1]))

def update(variable, outputs):
    with tf.GradientTape() as tape:
        loss = MEAN(outputs() ** 2)
    gradient = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, variable))
    variable.assign_sub(0.01 * gradient)

def critic(x):
    scale = tf.random.uniform([])
    update(v, lambda: x @ v * scale)

def generator(x):
    noise = tf.random.normal([tf.shape(x)[0], 4])
    update(w, lambda: noise @ w)

steps = [tf.function(lambda batch, step=step: strategy.run(step, args=(batch,))) for step in (critic, generator)]
for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(12)):
    for step in steps:
        step(batch)
"""


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_steps_that_one_replica_cannot_compute_are_computed_by_several(
    wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though every other step can be; before, such a step was left out, and the verdict was consistent."""
    script = _TWO_KINDS.replace("MEAN(", "tf.reduce_mean(" if wrong else "1 / 12 * tf.reduce_sum(")
    (tmp_path / "train.py").write_text(script)
    monkeypatch.chdir(tmp_path)
    verdict = verify(["python", "train.py"], "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == ("inconsistent" if wrong else "consistent"), str(verdict)
    assert wrong or [each.code for each in verdict.conditions] == ["own"]
