"""Replicas draw different random numbers, as one device draws different ones for every example."""

from __future__ import annotations

import pytest

from harness import StrategyCase, verify
from scenarios.programs import models, randomness

REPLICATED = pytest.mark.strategies(
    "mirrored-2",
    "multi_worker-2",
    full=("mirrored-1", "mirrored-3", "central_storage-2", "multi_worker-2x2"),
)


def _flavour(loop: str) -> models.Flavour:
    return "tf_keras" if loop.startswith("tf_keras") else "keras"


@REPLICATED
@pytest.mark.parametrize(
    "loop", ["keras3_loop:dropout", pytest.param("keras3_loop:dropout_seeded", marks=pytest.mark.full)]
)
def test_dropout_of_keras3(strategy: StrategyCase, loop: str) -> None:
    """Replicas drop different units, whether the layer has a seed or not."""
    assert verify(randomness.make("dropout", "keras", seeded=loop.endswith("seeded")), strategy, tier="exact")


@pytest.mark.strategies("mirrored-2", full=("mirrored-1", "mirrored-3", "central_storage-2"))
@pytest.mark.parametrize("seeded", [False, True], ids=["unseeded", "seeded"])
def test_dropout_of_tf_keras(strategy: StrategyCase, seeded: bool) -> None:
    """Replicas drop different units, whether the layer has a seed or not."""
    assert verify(randomness.make("dropout", "tf_keras", seeded=seeded), strategy, tier="exact")


@pytest.mark.strategies("multi_worker-2", full=("multi_worker-3",))
def test_workers_with_one_global_seed_draw_alike(strategy: StrategyCase) -> None:
    """Documented by `tf.random.set_seed`: with one global seed workers draw alike. Without one they do not."""
    assert verify(randomness.make("dropout", "tf_keras"), strategy, tier="exact")
    verdict = verify(randomness.make("dropout", "tf_keras", global_seed=7), strategy, tier="exact")
    assert not verdict
    assert verdict.first_divergence is not None
    assert verdict.first_divergence.observed == pytest.approx(1 / strategy.replicas)


@pytest.mark.strategies("mirrored-2", full=("mirrored-3",))
@pytest.mark.parametrize("loop", ["keras3_loop:noise", "tf_keras_loop:noise"])
def test_noise(strategy: StrategyCase, loop: str) -> None:
    """Replicas add different noise."""
    assert verify(randomness.make("noise", _flavour(loop)), strategy, tier="exact")


@REPLICATED
def test_a_generator_created_in_the_scope_is_split(strategy: StrategyCase) -> None:
    """`tf.random.Generator` gives every replica its own stream ("Random number generation" guide)."""
    assert verify(randomness.make("generator"), strategy, tier="exact")


@REPLICATED
def test_stateless_numbers_by_replica(strategy: StrategyCase) -> None:
    """A stateless seed made of the step and the replica's number gives every replica its own stream."""
    assert verify(randomness.make("stateless"), strategy, tier="exact")


@pytest.mark.strategies("mirrored-2", "multi_worker-2", full=("mirrored-3",))
def test_one_stateless_seed_for_all_replicas_is_caught(strategy: StrategyCase) -> None:
    """A stateless seed that does not know the replica draws the same numbers on all."""
    verdict = verify(randomness.make("stateless_shared"), strategy, tier="exact")
    assert not verdict
    assert {finding.law for finding in verdict.findings} == {"metrics_match_reference"}
