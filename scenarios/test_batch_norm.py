"""Synchronized BatchNormalization has the statistics of the global batch; the local one has documented ones."""

from __future__ import annotations

import pytest

from harness import StrategyCase, Verdict, verify
from scenarios.programs import models, normalizing

# For what differs little from its neighbours: one strategy in the quick profile.
REPLICATED_ONCE = pytest.mark.strategies(
    "mirrored-3",
    full=("multi_worker-2", "multi_worker-2x2"),
)


def _flavour(loop: str) -> models.Flavour:
    return "tf_keras" if loop.startswith("tf_keras") else "keras"


def _broken(verdict: Verdict) -> set[str]:
    return {finding.law for finding in verdict.findings}


# In one process the quick profile has uneven batches, below, which ask for more.
@pytest.mark.strategies("multi_worker-2", full=("mirrored-3", "multi_worker-2x2"))
@pytest.mark.parametrize("loop", ["keras3_loop:synchronized", "tf_keras_loop:synchronized"])
def test_synchronized(strategy: StrategyCase, loop: str) -> None:
    """`synchronized=True` trains, and keeps moving statistics, as one device does."""
    assert verify(normalizing.make("synchronized", _flavour(loop)), strategy)


@REPLICATED_ONCE
@pytest.mark.parametrize(
    "loop",
    [pytest.param("keras3_loop:synchronized_uneven", marks=pytest.mark.full), "tf_keras_loop:synchronized_uneven"],
)
def test_synchronized_on_uneven_batches(strategy: StrategyCase, loop: str) -> None:
    """Statistics count examples, not replicas, also where a replica has nothing."""
    assert verify(normalizing.make("synchronized", _flavour(loop), normalizing.UNEVEN), strategy)


@pytest.mark.full  # in the quick profile batches are uneven, above
@REPLICATED_ONCE
@pytest.mark.parametrize("loop", ["keras3_loop:synchronized_masked", "tf_keras_loop:synchronized_masked"])
def test_synchronized_and_masked(strategy: StrategyCase, loop: str) -> None:
    """A mask chooses what counts, and the statistics are still those of the global batch."""
    assert verify(normalizing.make("masked", _flavour(loop)), strategy)


@pytest.mark.full  # in the quick profile test_tutorials has a program like it
@pytest.mark.strategies("mirrored-2", "mirrored-3", "multi_worker-2")
@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_local_statistics_differ_from_global_ones(strategy: StrategyCase, flavour: models.Flavour) -> None:
    """Without `synchronized=True` each replica normalizes with its own statistics, as documented, and that is said.

    Those of Keras 3 are not averaged either, so that copies differ which the program reports, the first of which is
    what it predicts by; and so do, with several workers, the parts that they report of one device's gradients.
    """
    verdict = verify(normalizing.make("local", flavour), strategy)
    assert "own_statistics" in {condition.code for condition in verdict.conditions}
    reported = {"replicas_agree", "variables_match_reference", "predictions_match_reference"}
    expected = reported | ({"clients_agree"} if len(strategy.clients) > 1 else set())
    assert _broken(verdict) == (expected if flavour == "keras" else set())


@pytest.mark.strategies("mirrored-3", "multi_worker-2", full=("mirrored-2", "central_storage-2", "multi_worker-2x2"))
@pytest.mark.parametrize("loop", ["keras3_loop:moving_mean", "tf_keras_loop:moving_mean"])
def test_local_moving_statistics_are_averaged(strategy: StrategyCase, loop: str) -> None:
    """The moving mean that is saved and served is the mean of the replicas' moving means."""
    assert verify(normalizing.make_moving_mean(_flavour(loop)), strategy, tier="exact")
