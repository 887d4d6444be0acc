"""One replica normalises the rows of each replica of the run by themselves, where nobody synchronizes statistics."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np
import pytest

from harness import verify
from harness.judging.verdict import Verdict
from harness.recording.witness import statistics
from harness.subject.program import Program
from simulator import Cluster, Topology


def _layer(flavour: str) -> dict[str, Any]:
    """In a task: what a layer gives and keeps for batches of 3 and 5 rows, and for one beside an empty one."""
    import tensorflow as tf

    keras = importlib.import_module(flavour)
    x = np.random.default_rng(1).standard_normal((8, 2, 2, 3)).astype(np.float32)

    def made() -> Any:
        layer = keras.layers.BatchNormalization(momentum=0.5)
        layer.build((None, 2, 2, 3))
        return layer

    def kept(layer: Any) -> list[np.ndarray[Any, Any]]:
        return [np.asarray(variable) for variable in (layer.moving_mean, layer.moving_variance)]

    def called(rows: np.ndarray[Any, Any]) -> tuple[Any, list[np.ndarray[Any, Any]]]:
        layer = made()
        return np.asarray(layer(rows, training=True)), kept(layer)

    def apart(rows: np.ndarray[Any, Any], sizes: list[int]) -> tuple[Any, list[np.ndarray[Any, Any]]]:
        layer = made()
        call = tf.function(
            lambda: statistics.apart(type(layer).call, layer, tf.constant(rows), None, tf.constant(sizes))
        )
        return np.asarray(call()), kept(layer)

    (first, of_first), (second, of_second) = called(x[:3]), called(x[3:])
    found, means = apart(x, [3, 5])
    alone, of_alone = apart(x[:3], [3, 0])
    return {
        "given": (np.concatenate([first, second]), found),
        "kept": ([np.mean(pair, axis=0) for pair in zip(of_first, of_second, strict=True)], means),
        "beside an empty batch": ([first, *of_first], [alone, *of_alone]),
    }


@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_a_layer_has_the_batch_of_each_replica(flavour: str) -> None:
    """Its moving statistics become the mean of what they become on each, without those that have no rows."""
    with Cluster(Topology(), timeout=60) as cluster:
        found = cluster.run(functools.partial(_layer, flavour))["local:0"].value
    for expected, observed in found.values():
        for one, other in zip(expected, observed, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


def _train(strategy: Any, record: Any, *, wrong: str) -> None:
    import tensorflow as tf
    import tf_keras

    x = np.random.default_rng(3).standard_normal((24, 4)).astype(np.float32)
    y = x[:, :1] ** 2
    with strategy.scope():
        norm, dense = tf_keras.layers.BatchNormalization(), tf_keras.layers.Dense(1)
        norm.build((None, 4))
        dense.build((None, 4))
        optimizer = tf_keras.optimizers.SGD(0.1, momentum=0.5)
        weights = [*dense.trainable_variables, *norm.trainable_variables]
        optimizer.build(weights)

    def replica(rows: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            errors = (dense(norm(rows, training=True)) - labels) ** 2
            loss = tf.reduce_mean(errors) if wrong == "mean" else tf.reduce_sum(errors) / 12
            if wrong == "decay":
                loss += 0.1 * tf.reduce_sum(dense.kernel**2)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    step = tf.function(lambda batch: strategy.reduce("SUM", strategy.run(replica, batch), None))
    for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(12)):
        record.step(loss=step(batch))


def _verdict(strategy: str, wrong: str = "", **options: Any) -> Verdict:
    return verify(Program.of(functools.partial(_train, wrong=wrong)), strategy, **{"prove": False, **options})


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["mirrored-2", "mirrored-3", "multi_worker-2"])
def test_what_replicas_normalise_each_by_itself_is_judged_down_to_the_loss(strategy: str) -> None:
    """The statistics are a condition; nothing else is left open for them."""
    verdict = _verdict(strategy)
    assert verdict, str(verdict)
    assert [condition.code for condition in verdict.conditions] == ["own_statistics"]
    held = {law.law for law in verdict.judgements if law.status == "held"}
    assert {"loss_matches_reference", "variables_match_reference"} <= held


@pytest.mark.full  # test_verdict shows it too
def test_no_batch_refutes_what_they_explain() -> None:
    """Whatever the batch, replicas that normalise each by itself compute something else than one device."""
    verdict = _verdict("mirrored-2", prove=True)
    assert verdict, str(verdict)
    assert "for every batch: open" in str(verdict)


@pytest.mark.full
def test_a_mistake_beside_them_is_found() -> None:
    """And is not taken for what follows from the statistics."""
    verdict = _verdict("mirrored-2", "mean", explain=False)
    assert verdict.outcome == "inconsistent"
    assert verdict.explanation is not None
    assert verdict.explanation.rule == "loss_times_replicas"


@pytest.mark.full
@pytest.mark.parametrize(
    ("wrong", "line"), [("mean", "loss = tf.reduce_mean(errors)"), ("decay", "loss += 0.1 * tf.reduce_sum")]
)
def test_its_line_is_found(wrong: str, line: str) -> None:
    """Also where it comes after a layer whose operations the reference has once for each replica."""
    verdict = _verdict("mirrored-2", wrong, explain=True)
    assert verdict.looked is not None
    assert verdict.looked.culprit is not None, verdict.looked.why_not
    assert verdict.looked.culprit.source.startswith(line), str(verdict)
