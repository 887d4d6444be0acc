"""Semaphores of a program's own processes: a file each in `/dev/shm`, named so that the warden knows whose they are.

Python removes them by a process beside the program's; when a kill meets both, they stay.
"""

from __future__ import annotations

import os
import sys

from simulator.wire.spec import SEMAPHORES_VARIABLE


def name_as_asked() -> None:
    """Name those of this process, and of what it starts, as its run asks; outside of a run nothing changes."""
    if begin := os.environ.get(SEMAPHORES_VARIABLE):
        # TensorFlow has imported the first; its own runner of tests starts tasks with the second. A program that has
        # neither so far is not made to wait for it.
        for name in ("multiprocessing.process", "multiprocess.process"):
            if (process := sys.modules.get(name)) is not None:
                process.current_process()._config["semprefix"] = begin  # noqa: SLF001 - no other way
