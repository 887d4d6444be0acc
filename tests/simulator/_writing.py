"""A fake task that writes files on a disk that fills up; see test_disk_full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator import Cluster, RunFailed, Topology
from simulator.journal import read_journal
from tests.simulator._faults import own_agent, plan_of

_KIB = 1024


def main(disk: Path, fault: str) -> dict[str, Any]:
    """What each task could write in each of its steps, the events of the fault, and why the run failed, if it did."""
    fault = fault.replace("DISK", str(disk))
    with Cluster(Topology(worker=2), preload=(), timeout=30, faults=plan_of(fault)) as cluster:
        failure = ""
        try:
            result = cluster.run(_write_often, str(disk), 8)
        except RunFailed as failed:
            result, failure = failed.result, str(failed.root_cause.message)
        journal = list(read_journal(result.directory / "journal.jsonl"))
    return {
        "wrote": {name: task.value for name, task in result.tasks.items()},
        "events": [event for event in journal if event["event"] in ("fired", "undone")],
        "failure": failure,
        "left": sorted(path.name for path in disk.iterdir()),
    }


def _write_often(directory: str, count: int) -> list[str]:
    """Write 100 KiB in each step and remove it again; `ok`, or the number of the error."""
    agent = own_agent()
    seen = []
    path = Path(directory, agent.spec.task)
    for number in range(1, count + 1):
        try:
            path.write_bytes(bytes(100 * _KIB))
            seen.append("ok")
        except OSError as error:
            seen.append(str(error.errno))
        path.unlink(missing_ok=True)
        agent.step(number)
    return seen
