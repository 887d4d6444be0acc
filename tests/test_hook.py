"""The hook for pre-commit: its entry, run as it stands in its file, with files that have changed."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from harness.cli.prove import trainings
from simulator import UsageError
from tests._installed import ROOT, run_there

STEP = """
def train(strategy, record, *, rate=0.01):
    import tensorflow as tf

    with strategy.scope():
        weight = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
    batches = tf.data.Dataset.from_tensor_slices(tf.range(8.0)).batch(4)

    @tf.function
    def step(x):
        def replica(x):
            loss = tf.reduce_sum(weight * x) / DIVISOR
            weight.assign_sub(rate * tf.reduce_sum(x) / DIVISOR)
            return loss

        return strategy.reduce("SUM", strategy.run(replica, args=(x,)), axis=None)

    for x in strategy.experimental_distribute_dataset(batches):
        record.step(loss=step(x), variables=[weight])
"""


def _entry() -> list[str]:
    found = re.search(r"^  entry: (.*)$", (ROOT / ".pre-commit-hooks.yaml").read_text(), re.MULTILINE)
    assert found
    program, *words = shlex.split(found[1])
    assert program == "lockstep"
    return [sys.executable, "-c", "from _lockstep.command import main; main()", *words]


def test_files_without_a_training_pass(tmp_path: Path) -> None:
    """Most of what is committed has no training, and is not even imported."""
    (tmp_path / "setup.py").write_text("raise SystemExit('imported')\n\ndef build(record, strategy): ...\n")
    (tmp_path / "empty.py").write_text("")
    done = run_there(tmp_path, *_entry(), "setup.py", "empty.py", site=ROOT)
    assert "nothing to prove" in done.stderr


def test_trainings_are_found_by_their_parameters(tmp_path: Path) -> None:
    """On the top level, where `train(strategy, record)` is all that is needed to call them."""
    file = tmp_path / "train.py"
    for signature, is_one in (
        ("strategy, record", True),
        ("strategy, record, /, rate=0.1, *more, seed=0, **others", True),
        ("record, strategy", False),
        ("strategy, record, rate", False),
        ("strategy, record, *, rate", False),
        ("self, strategy, record", False),
        ("strategy", False),
    ):
        file.write_text(f"def train({signature}):\n    def inner(strategy, record): ...\n")
        assert trainings(file) == (["train"] if is_one else []), signature
    file.write_text("def train(:\n")
    with pytest.raises(UsageError, match="cannot be read as Python"):
        trainings(file)


@pytest.mark.full  # traces with TensorFlow, and runs a batch
def test_a_mistake_does_not_get_in(tmp_path: Path) -> None:
    """A right step passes; beside a wrong one the commit fails, and both are told."""
    (tmp_path / "right.py").write_text(STEP.replace("DIVISOR", "4.0"))
    (tmp_path / "wrong.py").write_text(STEP.replace("DIVISOR", "tf.cast(tf.size(x), tf.float32)"))
    assert "train under" not in run_there(tmp_path, *_entry(), "right.py", site=ROOT).stderr
    done = run_there(tmp_path, *_entry(), "right.py", "wrong.py", site=ROOT, code=1)
    assert "right.py:train under mirrored-2" in done.stderr
    assert "wrong.py:" in done.stdout
