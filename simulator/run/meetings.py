"""Whether one program of a job has ever been connected to the server of another, where nobody counts bytes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping

import psutil

from simulator.run.task import Task

# TensorFlow's connections last as long as the process, so that seldom is enough.
_PAUSE_SECONDS = 0.25


class Meetings:
    """Looks at the connections of the processes in each task's session, until one leads to another task's address.

    Args:
        tasks: the current incarnations by name.
        addresses: `host:port` of each task's server; of fewer than two nothing is asked.

    """

    def __init__(self, tasks: Mapping[str, Task], addresses: Mapping[str, str]) -> None:
        self._tasks = tasks
        self._ports = {int(address.rpartition(":")[2]): task for task, address in addresses.items()}
        self._again_at = 0.0
        self._met = self._looked = False

    @property
    def seen(self) -> bool | None:
        """Whether there was one; None if that is not asked, or nobody has looked while two tasks made steps.

        A short job may be over between two looks. Who has made a step with another keeps its connection.
        """
        return True if self._met else False if self._looked else None

    def look(self) -> None:
        """Look again, if it is time."""
        began = time.monotonic()
        if self._met or len(self._ports) < 2 or began < self._again_at:
            return
        stepping = [task for task in self._tasks.values() if task.alive and task.steps]
        sessions = {task.pid: task.name for task in self._tasks.values() if task.alive}
        for pid in psutil.pids():
            with contextlib.suppress(psutil.Error, ProcessLookupError):  # it has just ended
                if (task := sessions.get(os.getsid(pid))) is not None:
                    self._met |= any(self._ports.get(port, task) != task for port in _ports_of(pid))
        self._looked |= sum(task.alive for task in stepping) > 1
        ended = time.monotonic()
        # With many tasks it takes a while, in which nobody is heard.
        self._again_at = ended + max(_PAUSE_SECONDS, 10 * (ended - began))


def _ports_of(pid: int) -> Iterator[int]:
    """The ports at the other ends of a process's connections."""
    for connection in psutil.Process(pid).net_connections(kind="tcp"):
        if connection.raddr:
            yield connection.raddr.port
