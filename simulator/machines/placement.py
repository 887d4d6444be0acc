"""Which task runs on which machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from simulator.errors import LockstepError, UsageError
from simulator.machines.far.machine import FarMachine
from simulator.machines.protocol import LOCAL, Event, Machine, MachineShare


class Placement:
    """The machines of a run and the tasks of each.

    Args:
        machines: all of them.
        names: of the machine of each task, in the order of the tasks.
    """

    def __init__(self, machines: Sequence[Machine], names: Mapping[str, str]) -> None:
        self.machines = tuple(machines)
        self._machines = {machine.name: machine for machine in machines}
        self._names = dict(names)
        self._open: Callable[[], dict[str, str]] = dict

    @property
    def described(self) -> dict[str, Any]:
        """What a journal says of it: the machine of each task, and how well each one's clock is known, in seconds.

        Nothing where there is only this one.
        """
        alone = len(self.machines) == 1 and self.machines[0].name == LOCAL
        return {} if alone else {"machines": dict(self._names), "clocks": self.clocks}

    @property
    def clocks(self) -> dict[str, float]:
        """By machine, by how much times of its events may be wrong now, in seconds."""
        return {machine.name: machine.clock_error for machine in self.machines}

    @property
    def lost(self) -> tuple[Machine, ...]:
        """Machines that are not there any more and have tasks."""
        return tuple(machine for machine in self.machines if not machine.there and self.tasks(machine))

    @property
    def dead_at(self) -> float:
        """From when on the tasks of lost machines are dead, in seconds of CLOCK_MONOTONIC."""
        return max((machine.dead_at for machine in self.lost), default=0.0)

    @property
    def left(self) -> tuple[Machine, ...]:
        """Machines that are there."""
        return tuple(machine for machine in self.machines if machine.there)

    def machine(self, task: str) -> Machine:
        """Where a task runs."""
        return self._machines[self._names[task]]

    def tasks(self, machine: Machine) -> tuple[str, ...]:
        """Those that run there."""
        return tuple(task for task, name in self._names.items() if name == machine.name)

    def far(self, tasks: Iterable[str]) -> list[tuple[FarMachine, list[str]]]:
        """These tasks by machine, those of other machines than this one."""
        return [(machine, names) for machine, names in self.shares(tasks) if isinstance(machine, FarMachine)]

    @property
    def silent(self) -> bool:
        """Whether any machine is not heard for now."""
        return any(machine.silent for machine in self.machines)

    def open(
        self,
        hear: Callable[[Event], None],
        networked: Sequence[str],
        directory: Path,
        launcher: Callable[[], bytes],
    ) -> dict[str, str]:
        """Have each machine get ready for its tasks; `host:port` of each one's server.

        Args:
            hear: is told every event.
            networked: the tasks that have servers.
            directory: where logs and stacks are kept.
            launcher: pickles how a task becomes a process.
        """
        self._open = partial(self._opened, hear, networked, directory, launcher)
        return self._open()

    def move(self) -> dict[str, str]:
        """Give the tasks of lost machines to others, when all tasks have ended, and have those get ready anew.

        A machine that has had no task takes all that a lost one had; without one, each goes to that with fewest.

        Returns:
            `host:port` of each task's server, as of `open`; all are new.

        Raises:
            LockstepError: no machine is left.
        """
        # Whoever calls has waited as long, but for a machine that has been lost meanwhile.
        threading.Event().wait(max(0.0, self.dead_at - time.monotonic()))
        if not self.left:
            raise LockstepError("no machine is left on which tasks could be started again")
        for machine in self.lost:
            tasks = self.tasks(machine)
            spares = [each for each in self.left if not self.tasks(each)]
            for task in tasks:
                fewest = min(self.left, key=lambda each: len(self.tasks(each)))
                self._names[task] = (spares or [fewest])[0].name
        self.close()
        return self._open()

    def _opened(
        self,
        hear: Callable[[Event], None],
        networked: Sequence[str],
        directory: Path,
        launcher: Callable[[], bytes],
    ) -> dict[str, str]:
        addresses: dict[str, str] = {}

        def ready(machine: Machine, names: Sequence[str]) -> None:
            with_ports = tuple(name for name in names if name in networked)
            share = MachineShare(tuple(names), with_ports, directory, launcher)
            addresses.update(machine.open(share))

        for machine in self.machines:
            machine.listen(hear)
        at_once([partial(ready, machine, names) for machine, names in self.shares(self._names)])
        return addresses

    def close(self) -> list[int]:
        """Have each machine give back what it has taken; process ids of what was left of tasks, and has been killed."""
        left: list[int] = []
        at_once([partial(lambda each: left.extend(each.close()), machine) for machine in self.machines])
        return left

    def shares(self, tasks: Iterable[str]) -> list[tuple[Machine, list[str]]]:
        """These tasks by machine; machines without any are left out."""
        wanted = list(tasks)
        shares = [(each, [task for task in wanted if self._names[task] == each.name]) for each in self.machines]
        return [(machine, names) for machine, names in shares if names]


def placed(tasks: Sequence[str], machines: Sequence[str], asked: Mapping[str, str]) -> dict[str, str]:
    """The machine of each task: as was asked for, and else blocks of neighbours, as even as they can be.

    Args:
        tasks: all of them, in order.
        machines: names.
        asked: task to machine, for some of them.

    Raises:
        UsageError: there is no such task, or no such machine.
    """
    for task, machine in asked.items():
        if task not in tasks:
            raise UsageError(f"--place {task}={machine}: there is no task {task!r}; tasks are {', '.join(tasks)}")
        if machine not in machines:
            raise UsageError(
                f"--place {task}={machine}: there is no machine {machine!r}; machines are {', '.join(machines)}"
            )
    free = [task for task in tasks if task not in asked]
    blocks = {task: machines[number * len(machines) // len(free)] for number, task in enumerate(free)}
    return {task: asked.get(task) or blocks[task] for task in tasks}


def at_once(calls: Sequence[Callable[[], None]]) -> None:
    """Make these calls side by side, one for each machine, and raise the first error when all are over."""
    if len(calls) == 1:
        calls[0]()
        return
    with ThreadPoolExecutor(max(1, len(calls)), "lockstep-machines") as pool:
        for asked in [pool.submit(call) for call in calls]:
            asked.result()
