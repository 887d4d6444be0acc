"""Semaphores of a program's own processes: a file each in `/dev/shm`, named so that the warden knows whose they are.

Python removes them by a process beside the program's; when a kill meets both, they stay.
"""

from __future__ import annotations

import os
import sys

from simulator.helpers.warden import MARK_VARIABLE, SEMAPHORES

__all__ = ["name_by_mark"]


def name_by_mark() -> None:
    """Name those of this process, and of what it starts, by the mark of its run; outside of a run nothing changes."""
    if mark := os.environ.get(MARK_VARIABLE):
        # TensorFlow has imported the first; its own runner of tests starts tasks with the second. A program that has
        # neither so far is not made to wait for it.
        for name in ("multiprocessing.process", "multiprocess.process"):
            if (process := sys.modules.get(name)) is not None:
                process.current_process()._config["semprefix"] = f"/{SEMAPHORES}{mark}"  # noqa: SLF001 - no other way
