"""Unmodified scripts over machines: each has a view of its files, in which what the script writes there stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import verify
from simulator import Cluster, FaultPlan, Topology, UsageError
from simulator.agent.private_files import machine_view, view_of_machine
from simulator.faults import Kill
from simulator.machines.local.private_files import PrivateFilesUnavailable
from tests.simulator.lab.machines import lab

ROOT = Path(__file__).parents[2]
TWO = "env MACHINE={}:m0,m1"
SCRIPT = """
import json, os, pathlib, sys
import numpy as np
import tensorflow as tf

name = json.loads(os.environ.get("TF_CONFIG", '{"task": {"index": 0}}'))["task"]["index"]
place = pathlib.Path(f"seen-{name}")
assert not place.exists(), "another run has written this"
place.write_text("written")
strategy = tf.distribute.MultiWorkerMirroredStrategy()
x = np.arange(24, dtype=np.float32).reshape(8, 3) / 8
data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(4))
with strategy.scope():
    w = tf.Variable(tf.ones([3, 1]), name="w")

@tf.function
def step(rows):
    def replica(rows):
        with tf.GradientTape() as tape:
            each = tf.reduce_sum((rows @ w) ** 2, axis=1)
            loss = tf.reduce_mean(each) if "wrong" in sys.argv else tf.reduce_sum(each) / 4
        gradient = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w))
        w.assign_sub(0.01 * gradient)
        return loss
    return strategy.reduce("SUM", strategy.run(replica, args=(rows,)), axis=None)

for rows in data:
    print(float(step(rows)))
assert place.read_text() == "written"
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file in a directory of its own, which is as it was afterwards."""
    folder = tmp_path / "script"
    folder.mkdir()
    path = folder / "train.py"
    path.write_text(SCRIPT)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("LOCKSTEP_CULPRIT", "0")
    yield path
    assert [each.name for each in folder.iterdir()] == ["train.py"]


@pytest.mark.parametrize(
    ("strategy", "options", "why"),
    [
        ("multi_worker-2", {"files": "ship"}, "files that are sent have others"),
        ("multi_worker-2", {"interrupt_at": 1}, "would not find what those of another machine have saved"),
        ("multi_worker-2", {"faults": FaultPlan(faults=(Kill("worker:1", step=1),))}, "would not find what those"),
        ("parameter_server-1w1p", {}, "a coordinator is told by files what its workers on other machines"),
    ],
)
def test_what_needs_files_of_another_machine_is_refused(
    strategy: str, options: dict[str, Any], why: str, script: Path
) -> None:
    """Before anything runs, with what to do instead."""
    match = (
        rf"train\.py is a script, and over machines each one keeps what it writes to itself, .*{why}.*; verify a func"
    )
    with pytest.raises(UsageError, match=match):
        verify(["python", str(script)], strategy, machines=TWO, **options)


def _writes(place: str) -> tuple[bool, str]:
    """Whether a file is there already, and what is read after it was written."""
    from simulator.agent.private_files import enter_view, view_of_machine

    enter_view(view_of_machine()[0])
    was_there = Path(place).exists()
    Path(place).write_text("private")
    return was_there, Path(place).read_text()


@pytest.mark.full
def test_what_is_written_in_the_view_of_a_machine_stays_there(tmp_path: Path) -> None:
    """Also from one run to the next; without one it is where it was written, and a task that looks for one fails."""
    place = tmp_path / "written"
    with Cluster(Topology(worker=1), preload=(), timeout=60, machines=TWO, private=[str(tmp_path)]) as cluster:
        for _ in range(2):
            assert cluster.run(_writes, str(place))["worker:0"].value == (False, "private")
            assert not place.exists()
    with Cluster(Topology(worker=1), preload=(), timeout=60, machines=TWO) as cluster:
        cluster.expect("worker:0", error="RuntimeError", match="no view of the file system is held here")
        cluster.run(_writes, str(place))
    with Cluster(Topology(worker=1), preload=(), timeout=60, machines=TWO, private=["/"]) as cluster:
        match = "on machine m0: what is written below / cannot be kept apart"
        with pytest.raises(PrivateFilesUnavailable, match=match):
            cluster.run(_writes, str(place))


def test_a_task_is_told_of_the_view_by_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was given."""
    given = 7, ("/home", "/data"), {"/tmp/kept": "/home"}
    for name, value in machine_view(*given).items():
        monkeypatch.setenv(name, value)
    assert view_of_machine() == given


@pytest.mark.full
def test_a_script_is_judged_over_machines(script: Path) -> None:
    """A right one is consistent, and a wrong one is not; its reference is made here."""
    right = verify(["python", str(script)], "multi_worker-2", machines=TWO)
    assert right, str(right)
    assert right.machines == {"m0": ["worker:0"], "m1": ["worker:1"]}
    wrong = verify(["python", str(script), "wrong"], "multi_worker-2", machines=TWO)
    assert not wrong
    assert wrong.explanation is not None
    assert wrong.explanation.rule == "loss_times_replicas"


@pytest.mark.full
def test_a_script_is_judged_over_machines_that_share_little(script: Path, tmp_path: Path) -> None:
    """Neither clocks, nor processes, nor temporary files; four workers, two of which share the view of a machine."""
    with lab(tmp_path) as made:
        verdict = verify(["python", str(script)], "multi_worker-4", machines=made.machines, timeout=180)
    assert verdict, str(verdict)
    assert verdict.machines == {"m0": ["worker:0", "worker:1"], "m1": ["worker:2", "worker:3"]}
