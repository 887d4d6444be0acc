"""What is called with an argument that has an environment gets that, from its process's first moment on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from simulator import Cluster, Topology


@dataclass(frozen=True)
class _Program:
    task_environ: dict[str, str] = field(default_factory=dict)


def _told(program: object) -> tuple[str, bool]:
    """What the environment has, and whether it was there when the forkserver began to import."""
    import os

    began = Path("/proc/self/environ").read_bytes().split(b"\0")
    return os.environ.get("TF_USE_LEGACY_KERAS", ""), b"TF_USE_LEGACY_KERAS=1" in began


@pytest.mark.parametrize(
    ("program", "env", "told"),
    [
        (_Program({"TF_USE_LEGACY_KERAS": "1"}), {}, ("1", True)),
        (_Program({"TF_USE_LEGACY_KERAS": "1"}), {"TF_USE_LEGACY_KERAS": "0"}, ("0", False)),
        (_Program(), {}, ("", False)),
        ("task_environ", {}, ("", False)),
        (SimpleNamespace(environ={"TF_USE_LEGACY_KERAS": "1"}), {}, ("", False)),
    ],
)
def test_an_argument_may_say_what_its_process_needs(
    monkeypatch: pytest.MonkeyPatch, program: object, env: dict[str, str], told: tuple[str, bool]
) -> None:
    """What the cluster was told itself goes before it; other arguments say nothing."""
    monkeypatch.delenv("TF_USE_LEGACY_KERAS", raising=False)
    with Cluster(Topology(), preload=(), timeout=60, env=env) as cluster:
        assert cluster.run(_told, program)["local:0"].value == told


def _tasks(program: object) -> str:
    import os

    return os.environ["TF_CONFIG"]


def test_what_the_cluster_gives_its_tasks_is_theirs() -> None:
    """A program that sets `TF_CONFIG` would make every task the same one."""
    with Cluster(Topology(worker=2), preload=(), timeout=60) as cluster:
        result = cluster.run(_tasks, _Program({"TF_CONFIG": "one for all"}))
    assert [f'"index": {number}' in result[f"worker:{number}"].value for number in range(2)] == [True, True]
