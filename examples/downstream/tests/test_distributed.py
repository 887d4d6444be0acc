"""The project's training gives the same numbers however it is distributed."""

import pytest
from digits_trainer.training import Config, Trainer

from harness import verify


def train(strategy, record):
    """The trainer as it is; what it logs is what it reports, and variables and examples are seen without that."""
    Trainer(strategy, Config()).fit()


@pytest.mark.strategies("mirrored-2", full=("multi_worker-2", "mirrored-4"))
def test_training_is_distributed_right(strategy):
    """Before a merge under one strategy, in the nightly run under all."""
    assert verify(train, strategy)
