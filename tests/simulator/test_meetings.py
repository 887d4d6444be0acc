"""Whether the programs of a job were ever connected to each other, which says whether they trained as one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cli._job import as_json, summary
from simulator import LinkCounters, RunResult, TaskResult, Topology
from simulator.run.meetings import Meetings
from tests.simulator._only_run import bare, result_of_command

# worker:0 connects to the address of worker:`to`, and both stay for a while; the held port is shared, as by TensorFlow.
PROGRAM = """
import json, os, socket, sys, threading
config = json.loads(os.environ["TF_CONFIG"])
me, to = config["task"]["index"], int(sys.argv[1])
addresses = [address.rpartition(":") for address in config["cluster"]["worker"]]
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind(("127.0.0.1", int(addresses[me][2])))
server.listen()
connection = None
while me == 0 and connection is None:
    try:
        connection = socket.create_connection((addresses[to][0], int(addresses[to][2])))
    except OSError:
        threading.Event().wait(0.01)
threading.Event().wait(1)
"""


@pytest.mark.parametrize(("to", "met"), [(1, True), (0, None)])
def test_a_connection_to_another_task_is_seen(to: int, met: bool) -> None:
    """One of a task to itself is none, such as TensorFlow makes for its coordination service."""
    assert result_of_command(bare(Topology(worker=2)), [sys.executable, "-c", PROGRAM, str(to)]).met is met


@pytest.mark.parametrize(("steps", "met"), [((1, 1), False), ((1, 0), None)])
def test_that_nothing_was_seen_is_said_of_tasks_that_make_steps(steps: tuple[int, int], met: bool | None) -> None:
    """Before their first step, and once they have ended, they need not be connected."""
    with contextlib.ExitStack() as stack:
        tasks: dict[str, Any] = {}
        for number, done in enumerate(steps):
            process = stack.enter_context(subprocess.Popen(["sleep", "60"], start_new_session=True))
            stack.callback(process.kill)
            tasks[f"worker:{number}"] = SimpleNamespace(
                name=f"worker:{number}", pid=process.pid, alive=True, steps=done
            )
        meetings = Meetings(tasks, {name: f"127.0.0.1:{number}" for number, name in enumerate(tasks, 1)})
        meetings.look()
        assert meetings.seen is met


def test_nobody_asks_where_bytes_are_counted_or_nobody_could_meet() -> None:
    """Then it is not known, and not false."""
    assert result_of_command(bare(Topology(worker=1)), ["true"]).met is None
    assert result_of_command(bare(Topology(worker=2), relay=True), ["true"]).met is None


def _result(met: bool | None, steps: int = 3, count: int = 0) -> RunResult:
    nothing: dict[str, Any] = {"value": None, "error": None, "exit": 0, "signal": None, "log": "", "incarnation": 0}
    tasks = {name: TaskResult(name, steps=steps, stopped=False, **nothing) for name in ("worker:0", "worker:1")}
    links = (LinkCounters("worker:0", "worker:0", bytes=9), LinkCounters("worker:0", "worker:1", bytes=count))
    return RunResult(tasks, 1.0, Path(), links=links, met=met)


@pytest.mark.parametrize(
    ("result", "warned"),
    [
        (_result(met=False), True),
        (_result(met=True), False),
        (_result(met=False, steps=0), False),
        (_result(met=None), True),
        (_result(met=None, count=7), False),
    ],
    ids=["not connected", "connected", "no steps", "no bytes", "bytes"],
)
def test_workers_that_train_and_never_meet_are_warned_of(result: RunResult, warned: bool) -> None:
    """As text and as data; of a program that makes no steps nothing is expected."""
    text = "worker:0, worker:1 have made steps, and no connection of one to another was seen"
    assert (f"warning: {text}" in summary(result)) is warned
    assert any(text in each for each in as_json([], "2 worker", result, None)["warnings"]) is warned
