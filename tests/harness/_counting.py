"""A file of programs that count their steps in a file; they need TensorFlow for their strategy only."""

from __future__ import annotations

from pathlib import Path

import pytest

TRAIN = """
def train(strategy, record, restore=True):
    file = record.directory / "steps"
    done = int(file.read_text()) if file.exists() and restore else 0
    strategy.run(lambda: None)
    for step in range(done, 5):
        record.step(loss=float(step))
        file.write_text(str(step + 1))
    record.final(metrics={"steps": 5})


def forgetful(strategy, record):
    train(strategy, record, restore=False)


def twice(strategy, record):
    # Saves before it reports the step, so that what is done again after a death is the step after it.
    file = record.directory / "steps"
    done = int(file.read_text()) if file.exists() else 0
    for step in range(done, 5):
        record.step(loss=float(step) + (0.5 if done else 0.0))
        file.write_text(str(step + 1))


def broken(strategy, record):
    raise ArithmeticError("not even undisturbed")
"""


@pytest.fixture
def train(tmp_path: Path) -> str:
    """The path of such a file, which a test may change."""
    (tmp_path / "train.py").write_text(TRAIN)
    return str(tmp_path / "train.py")
