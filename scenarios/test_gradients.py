"""Clipping, accumulating and averaging act on the gradient of the global batch, under every strategy."""

from __future__ import annotations

import pytest

from harness import StrategyCase, Verdict, verify
from scenarios.programs import every_optimizer, gradient_flow, models, optimizing

# Not central storage: replicas can update its variables only with an aggregation, which optimizers give to their slots
# alone, not to averages and constrained variables ("You must specify an aggregation method to update a
# AggregatingVariable").
REPLICATED = pytest.mark.strategies("multi_worker-2", full=("mirrored-3", "multi_worker-2x2"))
# For what differs little from its neighbours: one strategy in the quick profile.
REPLICATED_ONCE = pytest.mark.strategies("mirrored-3", full=("multi_worker-2x2",))
ROUNDED = ("clipnorm", "global_clipnorm")


def _flavour(loop: str) -> models.Flavour:
    return "tf_keras" if loop.startswith("tf_keras") else "keras"


def _broken(verdict: Verdict) -> set[str]:
    return {finding.law for finding in verdict.findings}


@REPLICATED
@pytest.mark.parametrize(
    "form", ["clip_reduced", "accumulate", "outside", pytest.param("averages", marks=pytest.mark.full)]
)
def test_a_custom_loop_is_exact(strategy: StrategyCase, form: gradient_flow.Form) -> None:
    """Clipping by value, accumulation, a moving average of variables, and a captured tensor are bit for bit the
    same.
    """
    assert verify(gradient_flow.make(form), strategy, tier="exact")


@pytest.mark.full  # in the quick profile test_optimizer_options clips by the global norm
@REPLICATED_ONCE
@pytest.mark.parametrize("clip", ["norm", "global_norm"])
def test_clipping_by_a_norm_after_the_reduction(strategy: StrategyCase, clip: gradient_flow.Clip) -> None:
    """The norm of the reduced gradient is the norm of the global gradient."""
    assert verify(gradient_flow.make("clip_reduced", clip), strategy)


@pytest.mark.strategies("mirrored-2", full=("mirrored-3", "multi_worker-2", "central_storage-2"))
@pytest.mark.parametrize(
    "clip", ["value", pytest.param("norm", marks=pytest.mark.full), pytest.param("global_norm", marks=pytest.mark.full)]
)
def test_clipping_before_the_reduction_is_caught(strategy: StrategyCase, clip: gradient_flow.Clip) -> None:
    """A sum of clipped gradients is not the clipped sum."""
    verdict = verify(gradient_flow.make("clip_local", clip), strategy, tier="exact" if clip == "value" else "derived")
    assert not verdict
    assert "variables_match_reference" in _broken(verdict)


@pytest.mark.strategies("mirrored-2", full=("mirrored-3",))
def test_gradients_that_are_not_reduced_are_caught(strategy: StrategyCase) -> None:
    """Each replica applying its own gradient to its own copy makes the copies drift apart."""
    verdict = verify(gradient_flow.make("not_reduced"), strategy, tier="exact")
    assert {"replicas_agree", "variables_match_reference"} <= _broken(verdict)


@REPLICATED_ONCE
@pytest.mark.parametrize(
    ("flavour", "option"),
    [
        ("keras3", "warm_up"),
        ("keras3", "ema"),
        ("tf_keras", "weight_decay"),
        pytest.param("tf_keras", "warm_up", marks=pytest.mark.full),
        pytest.param("tf_keras", "ema", marks=pytest.mark.full),
        pytest.param("keras3", "weight_decay", marks=pytest.mark.full),
    ],
)
def test_optimizer_options_are_exact(strategy: StrategyCase, flavour: str, option: optimizing.Option) -> None:
    """A warm-up counts steps once, and decay and moving averages act once a step, not once for each replica."""
    assert verify(optimizing.make(option, _flavour(flavour)), strategy, tier="exact")


@REPLICATED_ONCE
@pytest.mark.parametrize("flavour", ["keras3", pytest.param("tf_keras", marks=pytest.mark.full)])
def test_constraints(strategy: StrategyCase, flavour: str) -> None:
    """A constraint acts on the variable after the update of all replicas."""
    assert verify(optimizing.make("constraint", _flavour(flavour)), strategy)


@REPLICATED_ONCE
@pytest.mark.parametrize(
    "loop",
    [
        "keras3_loop:clipvalue",
        pytest.param("tf_keras_loop:clipvalue", marks=pytest.mark.full),
        pytest.param("keras3_loop:global_clipnorm", marks=pytest.mark.full),
        "tf_keras_loop:global_clipnorm",
        pytest.param("keras3_loop:clipnorm", marks=pytest.mark.full),
        pytest.param("tf_keras_loop:clipnorm", marks=pytest.mark.full),
        pytest.param("keras3_loop:ema_overwrite", marks=pytest.mark.full),
        pytest.param("tf_keras_loop:ema_overwrite", marks=pytest.mark.full),
    ],
)
def test_optimizer_options(strategy: StrategyCase, loop: str) -> None:
    """Clips act on the reduced gradient; the moving average overwrites the variables every second step."""
    option: optimizing.Option = loop.partition(":")[2]  # type: ignore[assignment]
    tier = "derived" if option in ROUNDED else "exact"
    assert verify(optimizing.make(option, _flavour(loop)), strategy, tier=tier)  # type: ignore[arg-type]


@REPLICATED
@pytest.mark.loop("keras3_loop:accumulating")
def test_gradient_accumulation_of_keras3(strategy: StrategyCase) -> None:
    """`gradient_accumulation_steps=2` applies the mean of two batches."""
    assert verify(optimizing.make("accumulation", "keras"), strategy, tier="exact")


@pytest.mark.full
@pytest.mark.strategies("mirrored-3", "multi_worker-2")
@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_every_optimizer(strategy: StrategyCase, flavour: models.Flavour) -> None:
    """All optimizers of both Kerases keep variables and slots as one device does."""
    assert verify(every_optimizer.make(flavour), strategy)


@pytest.mark.strategies("mirrored-2", full=("mirrored-3", "multi_worker-2", "multi_worker-2x2"))
@pytest.mark.parametrize("loop", [pytest.param("keras3_loop:nadam", marks=pytest.mark.full), "tf_keras_loop:nadam"])
def test_nadam(strategy: StrategyCase, loop: str) -> None:
    """Nadam keeps a product of its past learning rates, once for all replicas."""
    assert verify(every_optimizer.make(_flavour(loop), every_optimizer.EXCEPT), strategy)


@pytest.mark.strategies("mirrored-3", full=("mirrored-4", "multi_worker-3"))
@pytest.mark.parametrize("flavour", ["keras", pytest.param("tf_keras", marks=pytest.mark.full)])
def test_sparse_gradients_are_exact(strategy: StrategyCase, flavour: models.Flavour) -> None:
    """An embedding's gradients are reduced exactly, with fewer rows on some replicas than on others."""
    assert verify(every_optimizer.make_sparse(flavour), strategy, tier="exact")


@pytest.mark.strategies("mirrored-2", full=("mirrored-3", "multi_worker-2"))
@pytest.mark.parametrize(
    "loop", ["keras3_loop:positions", pytest.param("tf_keras_loop:positions", marks=pytest.mark.full)]
)
def test_rows_that_every_replica_looks_up(strategy: StrategyCase, loop: str) -> None:
    """An optimizer squares the sum of the gradients that replicas have for one row, and not each of them."""
    assert verify(every_optimizer.make_positions(_flavour(loop)), strategy)
