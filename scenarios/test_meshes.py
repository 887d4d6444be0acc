"""A model that DTensor lays out over a mesh computes what one device computes, over one process and over several."""

from __future__ import annotations

import pytest

from harness import StrategyCase, verify
from scenarios.programs import meshes

_AXES = pytest.mark.parametrize("axis", [pytest.param(None, marks=pytest.mark.full), "model", "batch"])


@pytest.mark.strategies("dtensor-2x2", full=("dtensor-2", "dtensor-1x2", "dtensor-2w", "dtensor-2wx2"))
@_AXES
def test_layers_cut_along_an_axis(strategy: StrategyCase, axis: str | None) -> None:
    """By columns and by rows: DTensor adds the sums over the axis by itself."""
    assert verify(meshes.make(axis=axis), strategy)


@pytest.mark.strategies("dtensor-2w")
def test_clients_of_a_mesh(strategy: StrategyCase) -> None:
    """Processes that each pack their own part of the batch."""
    assert verify(meshes.make(axis="batch"), strategy)


@pytest.mark.full
@pytest.mark.strategies("dtensor-2", "dtensor-2x2")
@pytest.mark.parametrize("later", ["dtensor-2", "dtensor-2x2", "dtensor-1x2"])
def test_a_checkpoint_on_another_mesh(strategy: StrategyCase, later: str) -> None:
    """Weights and slots go on from what another mesh has saved."""
    assert verify(meshes.make(saves=True), strategy, interrupt_at=2, resume_strategy=later)
