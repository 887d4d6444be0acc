"""What a forkserver imports besides what it is for: modules that its tasks would otherwise each import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from _lockstep import preloads
from _lockstep.preloads import also_preload, asked_for
from simulator import Cluster, Topology

# Modules that nothing of Lockstep imports.
ANYWHERE, WITH_TENSORFLOW = "sndhdr" if sys.version_info < (3, 13) else "turtledemo", "this"


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but what a test asks for."""
    monkeypatch.setattr(preloads, "_asked", [])


def test_a_bare_forkserver_takes_what_is_for_every_one() -> None:
    """In the order in which it was asked for."""
    also_preload("harness.recording.preloads", "numpy.ma")
    also_preload("simulator.cluster", bare=True)
    assert asked_for(bare=True) == ("simulator.cluster",)
    assert asked_for(bare=False) == ("harness.recording.preloads", "numpy.ma", "simulator.cluster")


def _imported() -> list[bool]:
    return [name in sys.modules for name in (ANYWHERE, WITH_TENSORFLOW)]


def test_tasks_begin_with_it(tmp_path: Path) -> None:
    """Real processes, of a forkserver of their own, since a variable is another that counts when it imports."""
    also_preload(ANYWHERE, bare=True)
    also_preload(WITH_TENSORFLOW)
    with Cluster(Topology(), preload=(), timeout=30, env={"KERAS_HOME": str(tmp_path)}) as cluster:
        assert cluster.run(_imported)["local:0"].value == [True, False]


def test_tasks_on_another_machine_begin_with_it() -> None:
    """Where nothing of what has asked for it is imported."""
    also_preload(ANYWHERE, bare=True)
    with Cluster(Topology(), preload=(), timeout=60, machines="env MACHINE={}:m0") as cluster:
        assert cluster.run(_imported)["local:0"].value == [True, False]
