"""A run that is started again and draws what it had drawn: its generator is in no checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from harness.cli._exits import Exit
from harness.cli.verify import verify as command
from harness.evidence.steps import Segment
from harness.judging import repeated_draws as judged
from harness.judging.conditions import REPEATED_DRAWS
from harness.judging.repeated_draws import repeated_draws
from tests.harness._loop import Verified

_TRAIN = """\
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
x = np.random.default_rng(7).normal(size=(32, 5)).astype("float32")
with strategy.scope():
    w = tf.Variable(tf.zeros([5]), name="w")
    done = tf.Variable(0, dtype=tf.int64, name="done", trainable=False)
    noise = tf.random.Generator.from_seed(5)
manager = tf.train.CheckpointManager(tf.train.Checkpoint({saved}), "./saved", max_to_keep=2)
manager.restore_or_initialize()
data = tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1))).batch(8).skip(int(done.numpy()))


def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((tf.linalg.matvec(x + noise.normal(tf.shape(x)), w) - y) ** 2) / 8
    w.assign_sub(0.02 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))


@tf.function
def train(batch):
    strategy.run(step, args=batch)


for batch in strategy.experimental_distribute_dataset(data):
    train(batch)
    done.assign_add(1)
    manager.save()
"""


@dataclass
class _Step:
    index: int
    drawn: Sequence[bytes]

    def draws(self) -> list[tuple[str, bytes]]:
        return [("RandomNormal", each) for each in self.drawn]


_A, _B, _C = (bytes([each]) * 16 for each in b"abc")


@pytest.mark.parametrize(
    ("earlier", "later", "step"),
    [
        (([_A], [_B]), [_A], 1),
        (([_A], [_B]), [_B], 2),
        (([_A], [_B]), [_C], None),
        (([_A], [_A]), [_A], None),  # the same at each step
        (([_A[:8]], [_B[:8]]), [_A[:8]], None),  # maybe an accident
        (([], []), [], None),
        (([_A, _B], [_B, _C]), [_A], None),  # another number of draws
    ],
)
def test_draws_repeat_where_one_earlier_step_had_them(
    earlier: Sequence[Sequence[bytes]], later: Sequence[bytes], step: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, all of them."""
    steps = [*earlier, later]

    class Evidence:
        def __init__(self, segments: Sequence[Segment]) -> None:
            """All have the same steps."""

        def step(self, index: int) -> _Step:
            return _Step(index, steps[index - 1])

    monkeypatch.setattr(judged, "RunEvidence", Evidence)
    found = repeated_draws([Segment(()), Segment((), after=len(earlier))])
    assert (found is None) == (step is None)
    if found is not None:
        assert found.code == REPEATED_DRAWS
        assert f"step {len(steps)} draws again what step {step} had drawn (RandomNormal)" in found.text


@pytest.mark.full  # above from made-up steps
@pytest.mark.parametrize(
    ("saved", "repeats"),
    [
        ("w=w, done=done", True),
        ("w=w, done=done, noise=noise", False),
    ],
)
def test_a_script_whose_generator_is_not_saved_is_told(saved: str, repeats: bool, verified: Verified) -> None:
    """It is right otherwise; with `--strict` it fails."""
    verdict = verified(_TRAIN.format(saved=saved), "mirrored-2", interrupt_at=3, prove=False)
    assert verdict.outcome == "consistent"
    assert (REPEATED_DRAWS in [condition.code for condition in verdict.conditions]) is repeats
    if repeats:
        asked = ["--strategy", "mirrored-2", "--interrupt-at", "3", "--strict", "--", "python", "train.py"]
        assert command.main(asked, standalone_mode=False) == Exit.INCONSISTENT
