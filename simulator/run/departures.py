"""Lets tasks go that have returned, where those that are at work wait in vain for them.

A process whose function has returned stays, since its end would break collectives and the coordination service of peers
that are still at work. One of these that has begun a step more than it waits for ever: outside of Lockstep TensorFlow
would tell it that the other process has gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic as now

import psutil

from simulator.journal.journal import Journal
from simulator.run.task import Task
from simulator.wire.control import Release

# So long a process has announced no step and has had next to nothing of a processor, as while it waits in a collective.
_STILL_SECONDS = 1.5
_STILL_CPU_SECONDS = 0.05


@dataclass(frozen=True)
class _Still:
    """When this process was seen to have done so much."""

    incarnation: int
    steps: int
    cpu: float
    at: float


class Departures:
    """Looks again and again at the tasks of a run, of which those that return are kept.

    Args:
        tasks: the current incarnations by name.
        journal: gets an event for each that is let go.
    """

    def __init__(self, tasks: Mapping[str, Task], journal: Journal) -> None:
        self._tasks = tasks
        self._journal = journal
        self._seen: dict[str, _Still] = {}

    def look(self) -> None:
        """Let those that have returned go if all others have stood still for long enough."""
        clients = [task for task in self._tasks.values() if task.is_client and task.alive]
        if any(task.machine_name is not None for task in clients):
            return  # of processes elsewhere it is not known what they use
        returned = [task for task in clients if task.result is not None and not task.let_go]
        if not returned:
            return
        waiting = [task for task in clients if task.result is None and task.error is None]
        still = [task for task in waiting if self._stands_still(task)]
        if waiting and still == waiting:
            for task in returned:
                task.let_go = True
                task.send(Release())
                self._journal.write("let_go", task=task.name, waiting=[each.name for each in waiting])

    def _stands_still(self, task: Task) -> bool:
        at, cpu, before = now(), _cpu_seconds(task), self._seen.get(task.name)
        if (
            before is None
            or task.at_gate is not None
            or (before.incarnation, before.steps) != (task.incarnation, task.steps)
            or cpu - before.cpu > _STILL_CPU_SECONDS
        ):
            self._seen[task.name] = _Still(task.incarnation, task.steps, cpu, at)
            return False
        return at - before.at >= _STILL_SECONDS


def _cpu_seconds(task: Task) -> float:
    try:
        used = psutil.Process(task.pid).cpu_times()
    except psutil.Error:  # it has just ended
        return 0.0
    return used.user + used.system
