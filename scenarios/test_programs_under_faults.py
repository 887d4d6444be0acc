"""An unmodified parameter-server program under `lockstep run`: what a planned death costs, and what it breaks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, DeadlineExceeded, FaultPlan, Run, RunFailed, Topology

ROOT = Path(__file__).parents[1]
PROGRAM = str(Path(__file__).with_name("programs") / "unmodified" / "train_ps.py")
LOCKSTEP = [sys.executable, "-c", "from harness.cli import main; main()"]
UPDATES = 60
SERVERS = Topology(chief=1, worker=2, ps=1)


def _lockstep_run(folder: Path, *faults: str, workers: int = 2, code: int = 0) -> dict[str, Any]:
    """`lockstep run` of the program with a parameter server; what `--json` says."""
    options = ["--chief", "1", "--worker", str(workers), "--ps", "1", "--timeout", "100", "--quiet", "--json"]
    options += ["--out", str(folder), *(word for fault in faults for word in ("--fault", fault))]
    command = [*LOCKSTEP, "run", *options, "--", sys.executable, PROGRAM, str(UPDATES)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=150, check=False)
    assert done.returncode == code, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _log(folder: Path, task: str) -> str:
    return (folder / "0" / "logs" / f"{task.replace(':', '-')}.log").read_text()


def _applied(log: str) -> list[int]:
    """How often each update was applied, as the chief says at its end."""
    counts: list[int] = json.loads(log.splitlines()[-1])["applied"]
    return counts


def _retries(log: str) -> int:
    """The functions that the coordinator has taken back from a worker; it says so of each."""
    return len(re.findall(r"^ERROR:tensorflow:Worker .* failed with", log, re.MULTILINE))


KILLED = "kind=kill,task=worker:1,step=10,restart=0s"
# The chief stands at step 20 until the new process is up: a program that ends before that never exits, see below.
UP_AGAIN = "kind=pause,task=worker:1,step=20,duration=10ms"


def test_no_update_is_lost_when_a_worker_is_killed_and_comes_back(tmp_path: Path) -> None:
    """Exit code 0; each update was applied, and only those that were under way in the dead worker a second time."""
    found = _lockstep_run(tmp_path, KILLED, UP_AGAIN)
    assert [past["signal"] for past in found["tasks"]["worker:1"]["incarnations"]][:1] == ["SIGKILL"]
    assert found["tasks"]["worker:1"]["incarnation"] == 1
    log = _log(tmp_path, "chief:0")
    applied = _applied(log)
    retries = _retries(log)
    assert retries >= 1
    assert min(applied) >= 1
    assert UPDATES <= sum(applied) <= UPDATES + retries
    # A retried function whose result did not arrive is executed, and counted, twice.
    assert UPDATES <= found["tasks"]["chief:0"]["steps"] <= UPDATES + retries
    assert "update" in _log(tmp_path, "worker:1").partition("starts again, incarnation 1")[2]


def test_a_killed_parameter_server_fails_the_job(tmp_path: Path) -> None:
    """Exit code 3 and no hang: the fault comes first, then the chief, which lost its variables, as the root cause."""
    found = _lockstep_run(tmp_path, "kind=kill,task=ps:0,step=10", workers=1, code=3)
    assert not found["ended_well"]
    assert found["root_cause"]["task"] == "chief:0"
    assert "UnavailableError" in found["root_cause"]["message"]
    planned, first = found["error"].splitlines()[:2]
    assert planned.startswith("fault kill-1 (kill at step=10 of chief:0) ended ps:0, and nothing started it again")
    assert first.startswith("chief:0 failed first: Exit: ended with exit code 1")
    assert found["seconds"] < 60


def _check_exit_hang(failed: RunFailed) -> None:
    """It has hung at its exit, and is not something else that hangs or takes its time."""
    assert len(_applied(failed.result["chief:0"].log)) == 30
    assert "in __del__" in failed.stacks["chief:0"]


@pytest.mark.full
@pytest.mark.known_issue("tf-coordinator-exit-hang")
def test_a_program_that_ends_while_a_worker_is_away_exits() -> None:
    """Its functions have all been executed by the other worker, and it has printed its result; then it has to end."""
    plan = FaultPlan(faults=(FaultPlan.parse_fault("kind=kill,task=worker:1,step=10"),))
    with Cluster(SERVERS, preload=(), timeout=40, faults=plan) as cluster:
        try:
            result = cluster.run_command([sys.executable, PROGRAM, "30"])
        except RunFailed as failed:
            _check_exit_hang(failed)
            raise
    assert result["chief:0"].exit == 0


def _executed(run: Run) -> int:
    return sum(run.tasks[f"worker:{index}"].log.count("update") for index in range(2))


@pytest.mark.full  # tests/simulator/test_gates_coordinator.py has the same without TensorFlow
def test_a_coordinator_dispatches_nothing_at_a_gate() -> None:
    """While the chief stands at step 10, the one other function that may be under way ends, and no third begins."""
    with Cluster(SERVERS, preload=(), timeout=60) as cluster:
        cluster.set_gate("chief:0", "step:10")
        with cluster.start_command([sys.executable, PROGRAM, "40"]) as run:
            assert run.wait_gate("chief:0", "step:10")
            with pytest.raises(DeadlineExceeded):
                run.wait(lambda: _executed(run) > 11, "more updates, in time for a dozen", 10 * 0.1)
            assert 10 <= _executed(run) <= 11
            assert run.tasks["chief:0"].steps == 10
            run.open_gate("chief:0")
            chief = run.join()["chief:0"]
    assert chief.steps == 40
    assert _applied(chief.log) == [1] * 40
