"""Training leaves the data as it is that it was lent: the second epoch is given what the first one was."""

from __future__ import annotations

import pytest

from harness import StrategyCase, verify
from scenarios.programs import lent_arrays

STRATEGIES = pytest.mark.strategies(
    "mirrored-2", full=("one_device", "mirrored-3", "multi_worker-2", "multi_worker-2x2", "central_storage-2")
)


@STRATEGIES
@pytest.mark.parametrize("loop", ["plain_loop:generator"])
def test_arrays_of_a_generator(strategy: StrategyCase, loop: str) -> None:
    """A generator yields views of the program's own arrays, as `keras.utils.PyDataset` does."""
    assert verify(lent_arrays.make("plain_loop"), strategy)


# Three replicas would meet keras3-fit-uneven-first-batch, several workers keras3-fit-multi-worker.
@pytest.mark.full
@pytest.mark.strategies("mirrored-2", "one_device")
@pytest.mark.parametrize("loop", ["keras3_fit:generator"])
def test_arrays_of_a_generator_in_fit(strategy: StrategyCase, loop: str) -> None:
    """The labels, which nothing but the loss reads."""
    assert verify(lent_arrays.make("keras3_fit"), strategy)


@STRATEGIES
def test_copies(strategy: StrategyCase) -> None:
    """Arrays that the generator makes for each batch."""
    assert verify(lent_arrays.make("plain_loop", copied=True), strategy)


@pytest.mark.full
@pytest.mark.strategies("mirrored-2")
def test_copies_in_fit(strategy: StrategyCase) -> None:
    """The same by Keras 3."""
    assert verify(lent_arrays.make("keras3_fit", copied=True), strategy)
