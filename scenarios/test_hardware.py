"""What devices ask of a training, and what they compute: a TPU's constraints, rehearsed without one, and TF32.

A rehearsal computes on the CPU and is never counted as a TPU. The strategy `tpu` itself is among those of
`test_training.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness import StrategyCase, strategy_case, verify
from scenarios.programs import keras_fit, keras_loop, plain_loop
from simulator import RunFailed

REHEARSED = strategy_case("tpu", "tpu-rehearsed")
_BATCH = 8


def _training(mistake: str = "", *, drop_remainder: bool = True) -> Callable[[Any, Any], None]:
    """Least squares, with a step that is one `tf.function`; the mistakes are about what a TPU can run."""

    def train(strategy: Any, record: Any) -> None:
        import numpy as np
        import tensorflow as tf

        draw = np.random.default_rng(1)
        x = draw.standard_normal((4 * _BATCH, 3)).astype(np.float32)
        dataset = tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True)))
        batches = strategy.experimental_distribute_dataset(dataset.batch(_BATCH, drop_remainder=drop_remainder))
        with strategy.scope():
            w = tf.Variable(tf.zeros((3, 1)), name="w", aggregation=tf.VariableAggregation.SUM)

        def replica_step(x: Any, y: Any) -> Any:
            if mistake == "rows":
                x, y = x[y[:, 0] > 0], y[y[:, 0] > 0]  # a TPU has no such shape
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((x @ w - y) ** 2) / _BATCH
            gradient = tape.gradient(loss, w)
            if mistake == "host":
                gradient = tf.py_function(lambda value: value, [gradient], tf.float32)  # on the host
                gradient.set_shape((3, 1))
            w.assign_sub(0.1 * gradient)
            return loss

        @tf.function
        def train_step(iterator: Any) -> Any:
            return strategy.reduce("SUM", strategy.run(replica_step, args=next(iterator)), axis=None)

        iterator = iter(batches)
        for _ in range(4):
            record.step(loss=train_step(iterator), variables=[w])

    return train


def test_a_training_for_a_tpu_can_be_rehearsed() -> None:
    """Compiled by XLA as a whole, with the numbers of one device, and labelled as a rehearsal."""
    verdict = verify(_training(), REHEARSED)
    assert verdict, str(verdict)
    assert verdict.rehearsed
    assert all("REHEARSED" in device for device in verdict.tasks["local:0"]["devices"])


@pytest.mark.parametrize(
    ("train", "told"),
    [
        (_training("rows"), "x, y = x[y[:, 0] > 0], y[y[:, 0] > 0]  # a TPU has no such shape makes Where"),
        (_training("host"), "[gradient], tf.float32)  # on the host makes EagerPyFunc, which runs on the host"),
        (
            _training(drop_remainder=False),
            "next(iterator)), axis=None) gives a step float32 of the shape (None, 3)",
        ),
    ],
    ids=["rows", "host", "batch"],
)
def test_what_a_tpu_cannot_run_is_refused_with_its_line(train: Callable[[Any, Any], None], told: str) -> None:
    """Although XLA would compile two of them for a CPU."""
    with pytest.raises(RunFailed) as caught:
        verify(train, REHEARSED)
    assert caught.value.root_cause.kind == "TpuRefused"
    assert caught.value.root_cause.message.startswith("test_hardware.py:")
    assert told in caught.value.root_cause.message


@pytest.mark.full
def test_an_exact_loop_is_exact_when_rehearsed() -> None:
    """XLA's kernels add integers as TensorFlow's do."""
    assert verify(plain_loop.make(), REHEARSED, tier="exact")


@pytest.mark.full
@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_a_keras_loop_is_rehearsed(flavour: Any) -> None:
    """Convolutions, pooling and momentum, compiled."""
    assert verify(keras_loop.make(flavour, "cnn", "momentum"), REHEARSED)


@pytest.mark.full
@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_fit_wants_batches_of_a_fixed_size(flavour: Any) -> None:
    """Those of these arrays may be smaller at the end, and the line that fits them is named."""
    with pytest.raises(RunFailed, match=r"TpuRefused: keras_fit.py:\d+: model.fit.* of the shape \(None, 8, 8, 1\)"):
        verify(keras_fit.make(flavour, "mlp", "adam"), REHEARSED)


@pytest.mark.strategies("mirrored-2")
@pytest.mark.loop("keras3_loop:tf32")
def test_a_training_in_tf32_is_within_its_bound(strategy: StrategyCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """With TF32 left on, which the verdict says, as it says of all others here that it is off."""
    if strategy.accelerator != "gpu":
        pytest.skip(f"TF32 is arithmetic of NVIDIA's GPUs, and {strategy.accelerator} has none")
    monkeypatch.setenv("LOCKSTEP_TF32", "1")
    verdict = verify(keras_loop.make("keras", "mlp", "adam"), strategy)
    assert verdict, str(verdict)
    assert all("TF32 on" in device for device in verdict.tasks["local:0"]["devices"])
