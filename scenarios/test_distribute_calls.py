"""What `tf.distribute` itself computes, apart from trainings, is that of one device."""

from __future__ import annotations

import pytest

from harness import StrategyCase, verify
from scenarios.programs import distribute_calls

pytestmark = pytest.mark.full


@pytest.mark.strategies(
    "mirrored-2", "mirrored-3", "mirrored-2:hierarchical_copy", "multi_worker-2", "multi_worker-2x2"
)
@pytest.mark.parametrize("form", ["means", "gathers", "slices", "scatters"])
def test_calls(strategy: StrategyCase, form: distribute_calls.Form) -> None:
    """Uneven shares, and no row for some of the replicas."""
    assert verify(distribute_calls.make(form), strategy)


@pytest.mark.strategies("mirrored-2", "multi_worker-2x2")
def test_rows_as_they_are_given(strategy: StrategyCase) -> None:
    """What a step is given is gathered without an operation between."""
    assert verify(distribute_calls.make("given"), strategy)


@pytest.mark.known_issue("tf-collective-of-an-argument")
@pytest.mark.strategies("multi_worker-2")
def test_rows_as_they_are_given_to_one_replica(strategy: StrategyCase) -> None:
    """The same with one replica per worker."""
    assert verify(distribute_calls.make("given"), strategy)


@pytest.mark.known_issue("tf-central-storage-scatter")
@pytest.mark.strategies("central_storage-2")
def test_scatters_into_central_storage(strategy: StrategyCase) -> None:
    """A mean of what replicas scatter is one of them, where all scatter the same."""
    assert verify(distribute_calls.make("scatters"), strategy)
