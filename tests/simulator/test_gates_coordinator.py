"""Gates of a program with a ClusterCoordinator, which has a thread for each worker."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

from simulator import Cluster, DeadlineExceeded, Run, Topology

MODULE = "tensorflow.python.distribute.coordinator.cluster_coordinator"

# TensorFlow's coordinator as far as the counting sees it: threads that take functions from a queue.
FAKE_COORDINATOR = """
class Closure:
    def execute_on(self, worker):
        print("executed", flush=True)

class ResourceClosure(Closure): pass
"""
# Two dispatch threads; each says what it has had executed.
PROGRAM = f"""
import queue, threading
from {MODULE} import Closure, ResourceClosure

closures = queue.SimpleQueue()
for number in range(40):
    closures.put(ResourceClosure() if number < 2 else Closure())

def dispatch(worker):
    while not closures.empty():
        closures.get().execute_on(worker)

threads = [threading.Thread(target=dispatch, args=(worker,)) for worker in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
RESOURCES, CLOSURES = 2, 38


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """One task whose TensorFlow is a stand-in; it runs `PROGRAM`."""
    *packages, name = MODULE.split(".")
    folder = tmp_path / "fakes"
    for package in packages:
        folder /= package
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    (folder / f"{name}.py").write_text(FAKE_COORDINATOR)
    (tmp_path / "program.py").write_text(PROGRAM)
    return Cluster(Topology(worker=1), preload=(), timeout=30, env={"PYTHONPATH": str(tmp_path / "fakes")})


def _executed(run: Run) -> int:
    return run.tasks["worker:0"].log.count("executed") - RESOURCES


def _goes_on(run: Run, executed: int) -> bool:
    """Whether more than this is executed within half a second, which is time for thousands."""
    with contextlib.suppress(DeadlineExceeded):
        run.wait(lambda: _executed(run) > executed, "more to be executed", 0.5)
    return _executed(run) > executed


def test_nothing_is_dispatched_while_one_thread_stands_at_a_gate(cluster: Cluster, tmp_path: Path) -> None:
    """At gate step:5 five functions have been executed and at most one more is under way; the others wait."""
    with cluster:
        cluster.set_gate("worker:0", "step:5")
        cluster.set_gate("worker:0", "step:6")
        with cluster.start_command([sys.executable, str(tmp_path / "program.py")]) as run:
            for gate in (5, 6):
                assert run.wait_gate("worker:0", f"step:{gate}")
                assert not _goes_on(run, gate + 1)
                assert gate <= _executed(run) <= gate + 1
                assert run.tasks["worker:0"].steps == gate
                run.open_gate("worker:0")
            result = run.join()
    assert result["worker:0"].steps == CLOSURES


def test_without_the_turn_the_other_thread_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    """Negative control: where threads do not wait for each other, the gate stops one of them only."""
    program = tmp_path / "program.py"
    code = "import contextlib, simulator.agent.steps.counter as steps\nsteps.threading.RLock = contextlib.nullcontext\n"
    program.write_text(code + program.read_text())
    with cluster:
        cluster.set_gate("worker:0", "step:5")
        with cluster.start_command([sys.executable, str(program)]) as run:
            assert run.wait_gate("worker:0", "step:5")
            assert _goes_on(run, 6)
            run.open_gate("worker:0")
            run.join()
