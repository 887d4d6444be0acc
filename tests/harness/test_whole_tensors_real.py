"""Layers in 16 bits: a hundredth too much on their gradients is found, and a right training is never accused."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from harness import verify
from tests._present import present
from tests.harness._half import half


@pytest.mark.full  # in the quick profile tests/harness/test_whole_tensors.py has the bounds
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("factor", [1.0, 1.01])
def test_a_hundredth_on_gradients_is_found(dtype: str, factor: float) -> None:
    """By the whole of what a step adds, where the bounds of elements are wider than that; the right twin is green."""
    verdict = verify(half(dtype, factor=factor), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == ("consistent" if factor == 1.0 else "inconsistent")
    wholes = present(verdict.resolution["variables"].wholes)
    if factor != 1.0:
        assert present(verdict.first_divergence).step == 1
    else:
        assert present(wholes.factor).error < 0.1
        assert "as wholes a factor off by" in " ".join(str(verdict).split())


@pytest.mark.full  # the layers above are the quick proof that a tensor as a whole sees more than its elements
@pytest.mark.parametrize("factor", [1.0, 1.003])
def test_three_thousandths_on_a_head_in_float32_are_found(factor: float) -> None:
    """Where the other layers are in bfloat16, whose eps is larger than that; the right twin is green."""
    program: Any = half("bfloat16", head="float32", factor=factor)
    verdict = verify(program, "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == ("consistent" if factor == 1.0 else "inconsistent")
    if factor != 1.0:
        assert {finding.variable for finding in verdict.findings} == {"w2"}


@pytest.mark.full
@pytest.mark.parametrize(("coefficient", "local"), [(0.1, True), (0.1, False), (0.01, True)])
def test_a_z_loss_that_each_replica_averages_is_found(coefficient: float, local: bool) -> None:
    """In bfloat16; it is a share of the gradient that no factor explains."""
    program: Any = half("bfloat16", local=local, coefficient=coefficient)
    verdict = verify(program, "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == ("inconsistent" if local else "consistent")


def by_process(strategy: Any, record: Any, *, place: str, wrong: bool = False) -> None:
    """A rate that each process has for itself; wrong ones double it where there are several replicas."""
    import tensorflow as tf

    number = len(list(Path(place).iterdir()))
    Path(place, str(number)).touch()

    with strategy.scope():
        w = tf.Variable([1.0, 2.0], aggregation=tf.VariableAggregation.SUM)
    factor = 2.0 if wrong and strategy.num_replicas_in_sync > 1 else 1.0

    @tf.function
    def step(x: Any, rate: Any) -> None:
        def replica(x: Any, rate: Any) -> None:
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss(tf.reduce_sum(w * x, -1), global_batch_size=8)
            w.assign_sub(rate * factor * tape.gradient(loss, w))

        strategy.run(replica, args=(x, rate))

    data = tf.data.Dataset.from_tensor_slices(tf.random.stateless_uniform((16, 2), (1, 2))).batch(8)
    for x in strategy.experimental_distribute_dataset(data):
        step(x, tf.constant(0.1 * 3.0**number))
        record.step(variables=[w])


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_what_moves_without_its_gradient_is_no_rounding(wrong: bool, tmp_path: Path) -> None:
    """A step that is another one in each rerun can be neither right nor wrong, and is not called right."""
    verdict = verify(
        functools.partial(by_process, place=str(tmp_path), wrong=wrong), "mirrored-2", explain=False, prove=False
    )
    assert verdict.outcome == "abstained", str(verdict)
    assert [law.unseen for law in verdict.with_status("not_judged") if law.unseen] == [("Variable",)]
