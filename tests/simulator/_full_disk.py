"""A cluster whose temporary directory has no room any more; see test_breakdown."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from simulator import Cluster, LockstepError, RunFailed, Topology
from tests.simulator._faults import own_agent


def main(disk: Path, when: str) -> dict[str, Any]:
    """Run two tasks, for which the disk is full before they `start` or `later`; how that ended, and what is left."""
    tempfile.tempdir = str(disk)
    began = time.monotonic()
    found: dict[str, Any] = {"task": None}
    try:
        with Cluster(Topology(worker=2), preload=(), timeout=float("inf")) as cluster:
            cluster.run(len, "warm")
            if when == "start":
                _fill(disk)
            began = time.monotonic()
            cluster.run(_fill_and_wait, str(disk))
    except RunFailed as failed:
        found |= {"task": failed.root_cause.task, "text": str(failed)}
    except LockstepError as error:
        found["text"] = str(error)
    left = [path.name for path in disk.iterdir() if "forkserver" not in path.name]  # that goes with this process
    return found | {"seconds": time.monotonic() - began, "left": left}


def _fill(disk: Path) -> int:
    filling = os.open(disk, os.O_TMPFILE | os.O_RDWR, 0o600)
    for size in (1 << 16, 1 << 12, 1):
        with contextlib.suppress(OSError):
            while True:
                os.write(filling, bytes(size))
    return filling


def _fill_and_wait(disk: str) -> None:
    agent = own_agent()
    if agent.spec.task == "worker:1":
        _fill(Path(disk))
        for number in range(1, 1000):
            agent.step(number)
    threading.Event().wait()
