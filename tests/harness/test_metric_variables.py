"""Variables of a Keras metric among those that a program reports."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from harness import verify


def tracked(strategy: Any, record: Any, *, wrong: bool = False, reports: bool = True) -> None:
    """A model of tf_keras with a metric of its own, whose `count` is that of the replicas; all of it is reported."""
    import numpy as np
    import tensorflow as tf
    import tf_keras as keras

    x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")

    class Tracking(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(3)
            self.tracker = keras.metrics.Mean(name="track")

        def call(self, given: Any) -> Any:
            return self.dense(given)

    with strategy.scope():
        model = Tracking()
        model(x[:1])
        optimizer = keras.optimizers.SGD(0.1)

    def replica(given: Any) -> None:
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum((model(given) - 2 * given[:, :3]) ** 2, axis=1)
            loss = tf.reduce_mean(losses) if wrong else tf.nn.compute_average_loss(losses, global_batch_size=8)
        optimizer.minimize(loss, model.trainable_variables, tape)
        model.tracker.update_state(tf.reduce_mean(losses))

    step = tf.function(lambda given: strategy.run(replica, args=(given,)))
    for given in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(8)):
        step(given)
        if reports:
            record.step(variables=model.variables, metrics={"track": model.tracker})


@pytest.mark.full
@pytest.mark.parametrize(("wrong", "outcome"), [(False, "consistent"), (True, "inconsistent")])
def test_what_a_metric_keeps_is_left_out_and_its_result_is_judged(wrong: bool, outcome: str) -> None:
    """Its `count` is 2 for each step of two replicas, and 1 on one device, though the mean is the same."""
    verdict = verify(functools.partial(tracked, wrong=wrong), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    status = {law.law: law.status for law in verdict.judgements}
    # The metric is of the losses before each update, from the variables that the run had.
    assert status["metrics_match_reference"] == "held"
    assert status["variables_match_reference"] == ("broken" if wrong else "held")
    assert sum("what a Keras metric keeps" in note for note in verdict.notes) == 1
    assert not any("what Keras metrics keep" in note for note in verdict.notes)


@pytest.mark.full
def test_a_metric_that_nobody_reports_is_said_not_to_be_seen() -> None:
    """It may be scaled by the number of replicas."""
    verdict = verify(functools.partial(tracked, reports=False), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == "consistent", str(verdict)
    assert sum("what Keras metrics keep" in note for note in verdict.notes) == 1
