"""Semaphores of a task's own processes are removed when a kill meets who would have done that."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from simulator import Cluster, RunFailed, Topology


def _die_with_one(path: str, *, named: bool = True) -> None:
    if not named:
        multiprocessing.current_process()._config["semprefix"] = "/mp"  # type: ignore[attr-defined]
    lock = multiprocessing.get_context("spawn").Lock()
    Path(path).write_text(f"/dev/shm/sem.{lock._semlock.name.lstrip('/')}")  # type: ignore[attr-defined]
    os.killpg(0, signal.SIGKILL)


# As TensorFlow does when it is imported.
PROGRAM = """
import sys
from simulator.agent.attach import attach
from tests.simulator.test_semaphores import _die_with_one
attach()
_die_with_one(sys.argv[1])
"""


def _name_of_one(out: Path, *, program: bool = False, named: bool = True) -> Path:
    """Of a task that was killed while it had the semaphore."""
    with Cluster(Topology(worker=1), preload=(), timeout=30) as cluster:
        command = partial(cluster.run_command, [sys.executable, "-c", PROGRAM, str(out)])
        with pytest.raises(RunFailed, match="SIGKILL"):
            command() if program else cluster.run(_die_with_one, str(out), named=named)
    return Path(out.read_text())


@pytest.mark.parametrize("program", [False, True])
def test_they_go_with_the_run(tmp_path: Path, program: bool) -> None:
    """Of a function's task, and of an unmodified program's."""
    assert not _name_of_one(tmp_path / "name", program=program).exists()


def test_without_the_name_they_stay(tmp_path: Path) -> None:
    """What the tests above would find."""
    left = _name_of_one(tmp_path / "name", named=False)
    assert left.exists()
    left.unlink()
