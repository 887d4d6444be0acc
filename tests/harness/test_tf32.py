"""TF32: off unless asked for, and then its rounding is known to the bounds, which accuse it where it is off."""

from __future__ import annotations

from typing import Any

import pytest

from harness import StrategyCase, strategy_case, verify
from simulator import Cluster, Topology
from tests.harness._programs import mlp


def _roundings() -> dict[str, Any]:
    """What is made of numbers, of a product and of its gradient, next to NumPy's arithmetic in float64."""
    import numpy as np
    import tensorflow as tf

    from harness.recording.tf32 import round_to_tf32, rounding_products

    draw = np.random.default_rng(1).standard_normal(10_000).astype(np.float32)
    fractions, exponents = np.frexp(draw.astype(np.float64))
    nearest = np.ldexp(np.rint(fractions * 2**11) / 2**11, exponents)
    special = tf.constant([0.0, -0.0, float("inf"), 1 + 2**-10, 1 + 2**-11, 1 + 3 * 2**-11, -1 - 3 * 2**-12])
    x, y = tf.reshape(draw[:64], [8, 8]), tf.reshape(draw[64:128], [8, 8])
    with rounding_products(), tf.GradientTape() as tape:
        tape.watch(x)
        found = [
            tf.linalg.matmul(x, y),
            tf.einsum("ij,jk->ik", x, y),
            tf.nn.conv2d(x[None, :, :, None], y[:1, :, None, None], 1, "SAME"),
        ]
    rounded = [round_to_tf32(each) for each in (x, y)]
    plain = [tf.linalg.matmul(*rounded), tf.einsum("ij,jk->ik", *rounded)]
    plain.append(tf.nn.conv2d(rounded[0][None, :, :, None], rounded[1][:1, :, None, None], 1, "SAME"))
    return {
        "nearest": bool((round_to_tf32(tf.constant(draw)).numpy() == nearest).all()),
        "special": round_to_tf32(special).numpy().tolist(),
        "products": [bool(tf.reduce_all(one == other)) for one, other in zip(found, plain, strict=True)],
        "differ": bool(tf.reduce_any(found[0] != tf.linalg.matmul(x, y))),
    }


def test_factors_are_rounded_to_ten_bits_of_mantissa() -> None:
    """To nearest, ties to even, as computed in float64; of products by all the functions that make them."""
    with Cluster(Topology(), timeout=120) as cluster:
        found = cluster.run(_roundings)["local:0"].value
    assert found["nearest"]
    assert found["special"] == [0.0, -0.0, float("inf"), 1 + 2**-10, 1.0, 1 + 2**-9, -1 - 2**-10]
    assert found["products"] == [True] * 3
    assert found["differ"]


@pytest.mark.full  # few have it on; the rounding itself is tried above
@pytest.mark.parametrize(
    ("tf32", "mistake", "outcome"), [(True, "tf32", "consistent"), (False, "tf32", "inconsistent")]
)
def test_what_tf32_rounds_is_within_its_bound_and_outside_that_of_float32(
    tf32: bool, mistake: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program rounds its factors by itself, by another algorithm than the reference's."""
    monkeypatch.setattr(StrategyCase, "tf32", tf32)
    verdict = verify(mlp(mistake), "mirrored-2", explain=False)
    assert verdict.outcome == outcome, str(verdict)
    assert any(note.startswith("TF32 is on") for note in verdict.notes) is tf32


@pytest.mark.full
@pytest.mark.parametrize("mistake", ["divisor", "example_dropped"])
def test_mistakes_are_found_with_tf32(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wider bound does not hide a batch of 63 for one of 64."""
    monkeypatch.setattr(StrategyCase, "tf32", True)
    assert verify(mlp(mistake), "mirrored-2", explain=False).outcome == "inconsistent"


def test_it_is_off_unless_the_environment_asks_for_it_on_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU has none, whatever the environment says."""
    monkeypatch.delenv("LOCKSTEP_TF32", raising=False)
    assert not strategy_case("mirrored-2", "gpu").tf32
    monkeypatch.setenv("LOCKSTEP_TF32", "1")
    assert strategy_case("mirrored-2", "gpu").tf32
    assert not strategy_case("mirrored-2").tf32
