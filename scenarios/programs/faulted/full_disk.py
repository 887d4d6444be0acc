"""A training whose checkpoints are on a small file system that is filled up; see `call_on_small_disk`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness import strategy_case
from scenarios.programs.faulted.judging import problems
from scenarios.programs.faulted.surviving import plan_of, survive
from scenarios.programs.faulted.synchronous import NOTES, train
from simulator.faults import DiskFull

_BALLAST = 2**20


def main(disk: Path, strategy: str) -> dict[str, Any]:
    """Fill the file system just before the second save until the job has failed; what came of it.

    Only the checkpoints are on it: what the program notes has to be complete.
    """
    notes = disk.with_name("notes")
    notes.mkdir()
    (disk / NOTES).symlink_to(notes)
    case = strategy_case(strategy)
    fault = DiskFull("worker:0", directory=disk, size="512KiB", phase="before_save", nth=2, duration="500ms")
    told = survive(case, plan_of(fault), train, disk, env={}, ballast=_BALLAST)
    return {
        "problems": problems(told, disk, 4),
        "errors": told.own_errors,
        "fired": [dict(event) for event in told.of("fired")],
        "row": told.row(case, "job restarted, resumed after step 4, exact"),
    }
