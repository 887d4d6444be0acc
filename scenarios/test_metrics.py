"""Metrics that are aggregated over replicas, and predictions in input order, are those of one device."""

from __future__ import annotations

import pytest

from harness import StrategyCase, verify
from scenarios.programs import every_metric, measuring, models, on_batch

REPLICATED = pytest.mark.strategies("multi_worker-2", full=("mirrored-3", "central_storage-2", "multi_worker-2x2"))


def _flavour(loop: str) -> models.Flavour:
    return "tf_keras" if loop.startswith("tf_keras") else "keras"


@REPLICATED
@pytest.mark.parametrize("loop", ["keras3_loop:metrics", "tf_keras_loop:metrics"])
def test_a_custom_loop(strategy: StrategyCase, loop: str) -> None:
    """Accuracy, top-k, precision, recall, AUC and means agree exactly over uneven shards, an empty one included."""
    assert verify(measuring.make_loop(_flavour(loop)), strategy, tier="exact")


@pytest.mark.full  # in the quick profile uneven batches, below, which ask for more
@REPLICATED
@pytest.mark.parametrize("loop", ["keras3_evaluate:even", "tf_keras_evaluate:even"])
def test_evaluate_and_predict(strategy: StrategyCase, loop: str) -> None:
    """`evaluate` reports the global metrics, and `predict` keeps the order of its input."""
    assert verify(measuring.make_evaluate(_flavour(loop), measuring.EVEN), strategy, tier="exact")


@pytest.mark.strategies("multi_worker-2", full=("mirrored-3", "central_storage-2", "multi_worker-2x2"))
@pytest.mark.parametrize(
    "loop", ["keras3_evaluate:uneven", pytest.param("tf_keras_evaluate:uneven", marks=pytest.mark.full)]
)
def test_evaluate_and_predict_uneven_batches(strategy: StrategyCase, loop: str) -> None:
    """Also when replicas do not divide the batches."""
    assert verify(measuring.make_evaluate(_flavour(loop)), strategy, tier="exact")


@pytest.mark.strategies("mirrored-3", full=("central_storage-2", "multi_worker-2", "multi_worker-2x2"))
@pytest.mark.parametrize(
    "loop", [pytest.param("keras3_fit:batch_logs", marks=pytest.mark.full), "tf_keras_fit:batch_logs"]
)
def test_logs_of_fit(strategy: StrategyCase, loop: str) -> None:
    """What `fit` tells callbacks after every batch, and `History` after every epoch."""
    assert verify(measuring.make_logs(_flavour(loop), measuring.EVEN), strategy, tier="exact")


@pytest.mark.strategies("mirrored-2", full=("central_storage-2", "mirrored-3", "multi_worker-2"))
@pytest.mark.parametrize(
    "loop", [pytest.param("tf_keras_fit:batch_logs_uneven", marks=pytest.mark.full), "keras3_fit:batch_logs_uneven"]
)
def test_logs_of_fit_on_uneven_batches(strategy: StrategyCase, loop: str) -> None:
    """Also when replicas do not divide the later batches."""
    assert verify(measuring.make_logs(_flavour(loop), measuring.UNEVEN), strategy, tier="exact")


@pytest.mark.full
@pytest.mark.strategies("mirrored-2", "mirrored-3", "multi_worker-2", "multi_worker-2x2")
@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_every_other_metric(strategy: StrategyCase, flavour: models.Flavour) -> None:
    """Correlations, F scores, intersections over unions and all the others, over uneven shards."""
    assert verify(every_metric.make(flavour), strategy)


@pytest.mark.strategies("mirrored-2", full=("mirrored-3", "multi_worker-2"))
@pytest.mark.parametrize(
    ("loop", "examples"),
    [
        pytest.param("keras3_fit:outputs", 24, marks=pytest.mark.full),
        ("keras3_fit:outputs_uneven", 19),
        pytest.param("tf_keras_fit:outputs", 19, marks=pytest.mark.full),
    ],
)
def test_losses_of_several_outputs(strategy: StrategyCase, loop: str, examples: int) -> None:
    """`fit` and `evaluate` report the loss of each output, over all examples."""
    assert verify(every_metric.make_outputs(_flavour(loop), examples), strategy)


_WHOLE = pytest.mark.known_issue("keras3-whole-batch-on-each-replica")
_ROWS = pytest.mark.known_issue("keras3-predict-on-batch")


@pytest.mark.full
@pytest.mark.strategies("mirrored-2", "mirrored-3")
@pytest.mark.parametrize(
    ("flavour", "call"),
    [
        ("keras", "train"),
        ("tf_keras", "train"),
        pytest.param("keras", "test", marks=_WHOLE),
        ("tf_keras", "test"),
        pytest.param("keras", "predict", marks=_ROWS),
        ("tf_keras", "predict"),
    ],
)
def test_calls_on_one_batch(strategy: StrategyCase, flavour: models.Flavour, call: on_batch.Call) -> None:
    """What `train_on_batch`, `test_on_batch` and `predict_on_batch` leave and return is that of one device."""
    assert verify(on_batch.make(flavour, call), strategy)
