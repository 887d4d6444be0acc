"""Mixed precision, loss scaling and XLA train as on one device."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import StrategyCase, verify
from harness.verify import Tier
from scenarios.programs import fit_hinge, models, precision

# Not central storage: tf_keras refuses mixed precision and loss scaling under it, Keras 3 raises in loss scaling, and
# XLA cannot compile its variables.
# In one process the quick profile has bfloat16, and an overflow of float16.
ACROSS_WORKERS = pytest.mark.strategies(
    "multi_worker-2", full=("mirrored-1", "mirrored-2", "mirrored-3", "multi_worker-2x2")
)
MIRRORED_FIRST = pytest.mark.strategies(
    "mirrored-2", full=("mirrored-1", "mirrored-3", "multi_worker-2", "multi_worker-2x2")
)


def _flavour(loop: str) -> models.Flavour:
    return "tf_keras" if loop.startswith("tf_keras") else "keras"


@MIRRORED_FIRST
@pytest.mark.parametrize(
    "loop", ["keras3_loop:bfloat16", pytest.param("tf_keras_loop:bfloat16", marks=pytest.mark.full)]
)
def test_bfloat16(strategy: StrategyCase, loop: str) -> None:
    """A bfloat16 model without loss scaling.

    With tf_keras TensorFlow adds up the gradient of a bias in bfloat16 itself, whose roundings move the first one by
    most of what a step adds. So the numbers alone tell little of that bias, and the proof speaks for it.
    """
    assert verify(precision.make(_flavour(loop), "mixed_bfloat16"), strategy)


@ACROSS_WORKERS
@pytest.mark.parametrize("loop", ["keras3_loop:float16", pytest.param("tf_keras_loop:float16", marks=pytest.mark.full)])
def test_float16(strategy: StrategyCase, loop: str) -> None:
    """A float16 model with dynamic loss scaling; the scale doubles after every second step."""
    assert verify(precision.make(_flavour(loop), "mixed_float16"), strategy)


@pytest.mark.strategies("mirrored-2", full=("mirrored-1", "mirrored-3", "multi_worker-2"))
@pytest.mark.parametrize(
    "loop", ["keras3_loop:overflow_first", pytest.param("tf_keras_loop:overflow_first", marks=pytest.mark.full)]
)
def test_overflow_on_the_first_replica(strategy: StrategyCase, loop: str) -> None:
    """All replicas skip the step and halve the loss scale."""
    assert verify(precision.make_overflow(_flavour(loop), "inf", example=0), strategy, tier="exact", timeout=30)


@MIRRORED_FIRST
@pytest.mark.parametrize(
    "loop", [pytest.param("keras3_loop:overflow_last", marks=pytest.mark.full), "tf_keras_loop:overflow_last"]
)
def test_overflow_on_the_last_replica(strategy: StrategyCase, loop: str) -> None:
    """Also when the first replica's gradients are finite."""
    assert verify(precision.make_overflow(_flavour(loop), "inf", example=11), strategy, tier="exact", timeout=30)


@pytest.mark.full
@pytest.mark.strategies("mirrored-2")
@pytest.mark.parametrize(
    "loop", [f"{keras}_loop:overflow_{which}" for keras in ("keras3", "tf_keras") for which in ("first", "last")]
)
def test_a_gradient_that_is_no_number(strategy: StrategyCase, loop: str) -> None:
    """NaN is skipped as infinity is."""
    example = 0 if loop.endswith("first") else 11
    assert verify(precision.make_overflow(_flavour(loop), "nan", example=example), strategy, tier="exact", timeout=30)


@pytest.mark.full  # in the quick profile test_fit_with_jit_compile compiles the same
@pytest.mark.requires(xla=True)
@MIRRORED_FIRST
@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_xla(strategy: StrategyCase, flavour: models.Flavour) -> None:
    """Forward and backward pass compiled by XLA in every replica."""
    assert verify(precision.make(flavour, "float32", xla="jit_compile"), strategy)


@pytest.mark.requires(xla=True)
@pytest.mark.strategies("one_device", full=("mirrored-2", "multi_worker-2"))
@pytest.mark.parametrize("flavour", ["keras", pytest.param("tf_keras", marks=pytest.mark.full)])
def test_automatic_clustering(strategy: StrategyCase, flavour: models.Flavour, tmp_path: Path) -> None:
    """After `tf.config.optimizer.set_jit`; TensorFlow 2.21 compiles nothing in a step with collectives."""
    tier: Tier = "exact" if strategy.replicas == 1 else "derived"  # one replica compiles what the reference compiles
    assert verify(precision.make(flavour, "float32", xla="set_jit"), strategy, tier=tier, out=tmp_path)
    logs = [log.read_text() for log in (tmp_path / "run").rglob("*.log")]
    assert logs
    assert all(("Compiled cluster using XLA!" in log) == (strategy.replicas == 1) for log in logs)


@pytest.mark.requires(xla=True)
@pytest.mark.strategies("mirrored-2", full=("mirrored-1",))
@pytest.mark.parametrize(
    "loop", ["keras3_fit:jit_compile", pytest.param("tf_keras_fit:jit_compile", marks=pytest.mark.full)]
)
def test_fit_with_jit_compile(strategy: StrategyCase, loop: str) -> None:
    """`compile(jit_compile=True)` trains as one device does."""
    assert verify(fit_hinge.make(_flavour(loop), scalar=False, jit_compile=True), strategy, tier="exact")
