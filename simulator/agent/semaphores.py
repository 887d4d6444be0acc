"""Semaphores of a program's own processes: a file each in `/dev/shm`, named so that the warden knows whose they are.

Python removes them by a process beside the program's; when a kill meets both, they stay.
"""

from __future__ import annotations

import multiprocessing.process
import os
import sys

from simulator.helpers.warden import MARK_VARIABLE, SEMAPHORES

__all__ = ["name_by_mark"]


def name_by_mark() -> None:
    """Name those of this process, and of what it starts, by the mark of its run; outside of a run nothing changes."""
    if mark := os.environ.get(MARK_VARIABLE):
        # The other one too if it is there: TensorFlow's own runner of tests starts its tasks with it.
        for process in (multiprocessing.process, sys.modules.get("multiprocess.process")):
            if process is not None:
                process.current_process()._config["semprefix"] = f"/{SEMAPHORES}{mark}"  # noqa: SLF001 - no other way
