"""What several tests of the simulator begin with."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.capabilities.namespaces import try_namespaces


@pytest.fixture
def short_temporary() -> Iterator[Path]:
    """A directory with a short path: a longer one would not be used for clusters, whose Unix sockets have to fit."""
    with tempfile.TemporaryDirectory(prefix="lockstep-test-", dir="/tmp") as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def mounts() -> None:
    """File systems of one's own."""
    trials = try_namespaces()
    if why := trials["user_namespaces"] or trials["mount_namespaces"]:
        pytest.skip(f"this machine has no mount namespaces: {why}")
