"""A script whose variables have no names, and one more for each device: they are paired."""

from __future__ import annotations

import pytest

from tests.harness._loop import Verified

_SCRIPT = """
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
rng = np.random.default_rng(0)
x, y = rng.normal(size=(16, 6)).astype("float32"), rng.normal(size=(16, 3)).astype("float32")
marks = [tf.Variable(float(number)) for number, _ in enumerate(tf.config.list_logical_devices("CPU"))]
with strategy.scope():
    shapes = (6, 8), (8,), (8, 3), (3,)
    weights = [tf.Variable(rng.normal(size=shape).astype("float32")) for shape in shapes]
    moments = [tf.Variable(tf.zeros(shape)) for shape in shapes]

def replica_step(x, y):
    with tf.GradientTape() as tape:
        predicted = tf.tanh(x @ weights[0] + weights[1]) @ weights[2] + weights[3]
        loss = tf.nn.compute_average_loss(tf.reduce_sum((predicted - y) ** 2, 1), global_batch_size=8)
    gradients = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, weights))
    for weight, moment, gradient in zip(weights, moments, gradients):
        moment.assign(0.9 * moment + gradient)
        weight.assign_sub(0.05 * moment)

step = tf.function(lambda batch: strategy.run(replica_step, args=batch))
for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(8)):
    step(batch)
"""


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_variables_without_names_are_paired(wrong: bool, verified: Verified) -> None:
    """None is compared with another one, where they begin and at each step."""
    mean = "loss = tf.reduce_mean(tf.reduce_sum((predicted - y) ** 2, 1))"
    right = next(line.strip() for line in _SCRIPT.splitlines() if "compute_average_loss" in line)
    verdict = verified(_SCRIPT.replace(right, mean) if wrong else _SCRIPT, "mirrored-2", explain=False)
    assert verdict.outcome == ("inconsistent" if wrong else "consistent"), str(verdict)
    assert next(law for law in verdict.judgements if law.law == "begins_alike").status == "held"
    if wrong:
        assert verdict.explanation is not None
        assert verdict.explanation.rule == "loss_times_replicas"


_ACCUMULATING = """
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
x = np.random.default_rng(0).normal(size=(32, 3)).astype("float32")
with strategy.scope():
    w = tf.Variable(tf.zeros([3]))
sums = [tf.Variable(tf.zeros([3])) for _ in strategy.experimental_local_results(w)]

def replica_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((x @ w[:, None] - 1.0) ** 2) / 8
    return tape.gradient(loss, w)

for step, x in enumerate(strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(8))):
    for own, gradient in zip(sums, strategy.experimental_local_results(strategy.run(replica_step, args=(x,)))):
        own.assign_add(gradient)
    if step % 2:
        w.assign_sub(0.05 * tf.add_n([own.value() for own in sums]))
        for own in sums:
            own.assign(tf.zeros([3]))
"""


@pytest.mark.full
def test_what_each_device_keeps_for_itself_accuses_nobody(verified: Verified) -> None:
    """One replica has one sum where the run has two, and cannot be given what they hold."""
    verdict = verified(_ACCUMULATING, "mirrored-2", explain=False)
    assert verdict.outcome == "abstained", str(verdict)
    assert "the run makes variables that one device does not make" in str(verdict.abstained)


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_a_weight_that_is_called_otherwise_each_time_is_not_judged(wrong: bool, verified: Verified) -> None:
    """Nothing is set to what it holds in the run, and nothing is compared with it."""
    named = _SCRIPT.replace("import numpy", "import os\nimport numpy", 1).replace(
        'astype("float32")) for', 'astype("float32"), name=f"w{os.getpid()}") for'
    )
    told = verified(
        named.replace("global_batch_size=8", "global_batch_size=4") if wrong else named, "mirrored-2", explain=False
    )
    assert told.outcome == "abstained", str(told)
    assert "gets gradients, and one device has no variable of that name" in str(told.abstained)
