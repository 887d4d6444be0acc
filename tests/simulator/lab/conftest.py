"""What the tests of the lab have in common."""

from __future__ import annotations

import pytest

from tests.simulator.lab.machines import ROOT


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The repository is on all machines."""
    monkeypatch.chdir(ROOT)
