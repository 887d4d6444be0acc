"""Nodes of a real Ray cluster as machines: a head and raylets in the lab, and Lockstep's commands on the head."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from simulator.journal import read_journal
from tests.simulator._wire import eventually
from tests.simulator.lab.keeper import address
from tests.simulator.lab.machines import lab
from tests.simulator.lab.raylets import Raylets, raylets

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed here: pip install ray"),
]

_SECONDS_MAX = 240.0
PROGRAM = """
import json, os, socket
import simulator
config = json.loads(os.environ["TF_CONFIG"])
print(json.dumps({
    "host": socket.gethostname(),
    "cluster": config["cluster"]["worker"],
    "environ": sorted(os.environ),
}), flush=True)
for _ in range(3):
    simulator.step()
"""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raylets]:
    """A cluster of a head and two nodes, whose cables nobody pulls."""
    with lab(tmp_path_factory.mktemp("shared"), count=3) as made, raylets(made) as cluster:
        yield cluster


def _lockstep(cluster: Raylets, *arguments: str, token: str | None = None) -> subprocess.CompletedProcess[str]:
    """The command, on the node of the head; its exit code does not come through the lab's door."""
    command = cluster.on(0, str(Path(sys.executable).parent / "lockstep"), *arguments, token=token)
    return subprocess.run(command, input="", capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)


def _json(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout.startswith("{"), (done.stdout, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _program(cluster: Raylets) -> str:
    path = cluster.lab.shared / "prog.py"
    path.write_text(PROGRAM)
    return str(path)


def _left(cluster: Raylets, machine: int) -> list[str]:
    """What there still is of Lockstep on a machine: processes, and files."""
    script = (
        "import pathlib, psutil\n"
        "for each in psutil.process_iter(['cmdline']):\n"
        "    words = each.info['cmdline'] or []\n"
        "    if {'_lockstep.site', 'simulator.helpers.ray.driver'} & set(words): print(*words)\n"
        "for path in pathlib.Path('/tmp').glob('lockstep-*'): print(path)\n"
    )
    command = cluster.on(machine, sys.executable, "-c", script)
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


def _is_clean(cluster: Raylets, machine: int) -> bool:
    return not _left(cluster, machine)


def _nothing_left(cluster: Raylets) -> None:
    for machine in range(cluster.lab.count):
        eventually(partial(_is_clean, cluster, machine), f"nothing to be left on machine {machine}")


def test_a_job_runs_on_the_nodes_that_get_work(three: Raylets) -> None:
    """Two tasks on each, with the environment of the node and not of Ray's worker there; afterwards nothing is left."""
    out = three.lab.shared / "out"
    asked = ["--machines", "ray:2", "--worker", "4", "--json", "--quiet", "--out", str(out)]
    found = _json(_lockstep(three, "run", *asked, "--", sys.executable, _program(three)))
    assert found["ended_well"], found["error"]
    assert [task["machine"] for task in found["tasks"].values()] == ["ray-0", "ray-0", "ray-1", "ray-1"]
    said = [json.loads((out / "0" / "logs" / f"worker-{number}.log").read_text()) for number in range(4)]
    assert [each["host"] for each in said] == ["m1", "m1", "m2", "m2"]
    hosts = [server.partition(":")[0] for server in said[0]["cluster"]]
    assert hosts == [address(1), address(1), address(2), address(2)]
    for each in said:
        assert "RAY_ADDRESS" in each["environ"]  # with which it was started there
        assert not {"LD_PRELOAD", "OMP_NUM_THREADS", "RAY_JOB_ID", "RAY_RAYLET_PID"} & set(each["environ"])
    assert {task["steps"] for task in found["tasks"].values()} == {3}
    _nothing_left(three)


def test_nodes_are_placed_by_name(three: Raylets) -> None:
    """In the order in which they were named; one that is not there is named, with those that are."""
    asked = ["run", "--worker", "2", "--json", "--quiet", "--machines"]
    job = ["--", sys.executable, _program(three)]
    place = ["--place", f"worker:0={address(0)}"]
    found = _json(_lockstep(three, *asked, f"ray:{address(2)},{address(0)}", *place, *job))
    assert {name: task["machine"] for name, task in found["tasks"].items()} == {
        "worker:0": address(0),
        "worker:1": address(2),
    }
    gone = _json(_lockstep(three, *asked, "ray:10.9.8.7", *job))
    assert f"no node that is alive is called 10.9.8.7; the cluster has {address(1)}" in gone["error"], gone


def test_verdicts_are_as_on_one_machine(three: Raylets) -> None:
    """A right program is consistent, a wrong one is not."""
    verdicts = {}
    for name in ("train", "train_wrong"):
        asked = ["--strategy", "multi_worker-2", "--machines", "ray:2", "--no-prove", "--json"]
        verdicts[name] = _json(_lockstep(three, "verify", f"examples/verify_custom_loop.py:{name}", *asked))
    assert verdicts["train"]["consistent"], verdicts["train"]
    assert not verdicts["train_wrong"]["consistent"]
    assert verdicts["train_wrong"]["first_divergence"]["step"] == 1
    assert {name: task["machine"] for name, task in verdicts["train"]["tasks"].items()} == {
        "worker:0": "ray-0",
        "worker:1": "ray-1",
    }


def test_a_lost_machine_is_replaced_by_a_spare(three: Raylets) -> None:
    """By the node that gets no work of Ray's, since nobody else is free."""
    fault = ["--fault", "kind=machine_lost,task=worker:1,step=2", "--restarts", "1"]
    place = ["--place", "worker:0=ray-0", "--place", "worker:1=ray-1"]
    asked = ["--machines", "ray:3", *place, "--worker", "2", "--json", "--quiet", *fault]
    found = _json(_lockstep(three, "run", *asked, "--", sys.executable, _program(three)))
    assert found["ended_well"], found["error"]
    assert [task["machine"] for task in found["tasks"].values()] == ["ray-0", "ray-2"]
    assert found["faults"][0]["fired"]
    _nothing_left(three)


def test_who_has_not_the_token_is_turned_away(three: Raylets) -> None:
    """By Ray, before anything starts; the doctor says so."""
    refused = _json(_lockstep(three, "doctor", "--machines", "ray:2", "--json", token="0" * 32))
    assert "nodes of Ray cannot be had" in refused["error"]
    assert "Authentication token is missing or incorrect" in refused["error"]
    machines = _json(_lockstep(three, "doctor", "--machines", "ray:2", "--json"))["machines"]
    assert [machine["address"] for machine in machines] == [address(1), address(2)]
    assert all(machine["clock_error_seconds"] < 0.01 for machine in machines)


WAITS = """
import os, pathlib, sys, threading, time
import simulator
simulator.step()
alive = pathlib.Path(sys.argv[1], os.environ["LOCKSTEP_TASK"])
while True:
    alive.with_suffix(".new").write_text(repr(time.clock_gettime(time.CLOCK_REALTIME)))
    alive.with_suffix(".new").replace(alive)
    threading.Event().wait(0.05)
"""


def _waiting(cluster: Raylets, out: Path) -> subprocess.Popen[bytes]:
    """A job that goes on for ever, whose tasks say that they are alive."""
    (cluster.lab.shared / "waits.py").write_text(WAITS)
    job = [sys.executable, str(cluster.lab.shared / "waits.py"), str(cluster.lab.shared)]
    asked = ["run", "--machines", "ray:2", "--worker", "2", "--quiet", "--out", str(out), "--", *job]
    command = cluster.on(0, str(Path(sys.executable).parent / "lockstep"), *asked)
    with (cluster.lab.shared / "waiting.log").open("wb") as log:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)


def _last_alive(cluster: Raylets, worker: int) -> float:
    return float((cluster.lab.shared / f"worker:{worker}").read_text())


def _both_alive(cluster: Raylets) -> None:
    deadline = time.monotonic() + 60
    pause = threading.Event()
    while not all((cluster.lab.shared / f"worker:{number}").exists() for number in range(2)):
        assert time.monotonic() < deadline, (cluster.lab.shared / "waiting.log").read_text()
        pause.wait(0.05)


def test_a_driver_that_is_killed_leaves_no_task_on_any_node(three: Raylets) -> None:
    """Within three seconds, and no site, no actor's process and no directory."""
    with _waiting(three, three.lab.shared / "killed"):
        _both_alive(three)
        assert all(_left(three, machine) for machine in range(3))
        script = (
            "import psutil\n"
            "for each in psutil.process_iter(['cmdline']):\n"
            "    if 'waits.py' in ' '.join(each.info['cmdline'] or []): each.kill()\n"
        )
        subprocess.run(three.on(0, sys.executable, "-c", script), input=b"", timeout=60, check=True)
        killed = time.time()
    eventually(lambda: time.time() - killed > 4, "time to pass")
    assert all(_last_alive(three, number) - killed < 3 for number in range(2))
    _nothing_left(three)


def test_a_node_behind_a_pulled_cable_is_a_lost_machine(tmp_path: Path) -> None:
    """Its tasks have ended, by its site, before it is named; Ray itself would not know for a minute."""
    with lab(tmp_path, count=3) as made, raylets(made) as cluster:
        out = tmp_path / "out"
        with _waiting(cluster, out):
            _both_alive(cluster)
            made.cut(2)
            cut = time.time()
        took = time.time() - cut
        events = list(read_journal(out / "0" / "journal.jsonl"))
        lost = [event for event in events if event["event"] == "machine_lost"]
        assert [event["machine"] for event in lost] == ["ray-1"]
        assert "nothing was heard of it" in json.dumps(lost)
        assert 9 < _last_alive(cluster, 1) - cut < 11
        # The job is over when that is known, after the fence.
        assert 11 < took < 30
        assert json.loads((out / "run.json").read_text())["root_cause"]["kind"] == "MachineLost"
