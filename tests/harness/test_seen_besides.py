"""Trainings that report nearly nothing, draw in a parallel `map`, or divide by the number of replicas with `divmod`."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from harness import verify
from tests.harness._loop import Verified

pytestmark = pytest.mark.full

_SCRIPT = """
import sys
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
share, rest = divmod(12, strategy.num_replicas_in_sync)
assert rest == 0
x = np.random.default_rng(0).normal(size=(36, 3)).astype("float32")
data = tf.data.Dataset.from_tensor_slices(x)
if "drawn" in sys.argv:
    data = data.map(lambda row: row + tf.random.normal([3]), num_parallel_calls=4)
with strategy.scope():
    w = tf.Variable(tf.ones(3), name="w")

def replica_step(x):
    with tf.GradientTape() as tape:
        losses = (tf.linalg.matvec(x, w) - 1) ** 2
        loss = tf.reduce_mean(losses) if "wrong" in sys.argv else tf.reduce_sum(losses) / 12
    (gradient,) = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, [w]))
    w.assign_sub(0.05 * gradient)

step = tf.function(lambda x: strategy.run(replica_step, args=(x,)))
if "drawn" in sys.argv:
    batches = strategy.experimental_distribute_dataset(data.batch(12))
else:
    batches = strategy.distribute_datasets_from_function(lambda context: data.batch(share))
for batch in batches:
    step(batch)
"""


def _counts_only(strategy: Any, record: Any, *, wrong: bool) -> None:
    import keras
    import numpy as np
    import tensorflow as tf

    x = np.random.default_rng(0).normal(size=(36, 3)).astype("float32")
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, kernel_initializer="ones")])
        optimizer = keras.optimizers.SGD(0.05)
        optimizer.build(model.trainable_variables)
    factor = float(strategy.num_replicas_in_sync) if wrong else 1.0

    def replica_step(x: Any) -> None:
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum((model(x, training=True) - 1) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=12)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(
            (factor * each, of) for each, of in zip(gradients, model.trainable_variables, strict=True)
        )

    step = tf.function(lambda x: strategy.run(replica_step, args=(x,)))
    for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(12)):
        step(batch)
        record.step(variables=[optimizer.iterations])


@pytest.mark.parametrize("wrong", [False, True])
def test_weights_are_judged_where_only_a_counter_is_reported(wrong: bool) -> None:
    """Gradients times the number of replicas are found, in the kernel."""
    verdict = verify(functools.partial(_counts_only, wrong=wrong), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == ("inconsistent" if wrong else "consistent"), str(verdict)
    assert any("kernel" in str(finding.variable) for finding in verdict.findings) == wrong


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("data", ["drawn", "divided"])
def test_a_script_that_draws_in_a_parallel_map_or_divides_is_judged(data: str, wrong: bool, verified: Verified) -> None:
    """What is drawn there is the run's own, and a mean of each replica is found; the right twins are green."""
    verdict = verified(_SCRIPT, "mirrored-2", data, "wrong" if wrong else "right", explain=False, prove=False)
    assert verdict.outcome == ("inconsistent" if wrong else "consistent"), str(verdict)
    given = [*(["drawn_examples"] if data == "drawn" else []), *([] if wrong else ["count_of_replicas"])]
    assert [condition.code for condition in verdict.conditions] == given
