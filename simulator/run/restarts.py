"""What is started again after a failure, and how surely the old processes are gone by then."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulator.errors import DeadlineExceeded, UsageError
from simulator.run.task import Task
from simulator.topology import Topology

__all__ = ["POLICIES", "RestartPolicy", "group_members", "has_done", "kill_surely"]

POLICIES = ("none", "task", "job")


@dataclass(frozen=True)
class RestartPolicy:
    """What a run does about a failure that no plan asked for.

    Attributes:
        kind: `none`: the run fails. `task`: the failed task alone is started again, as a scheduler does with the
            workers and parameter servers of `ParameterServerStrategy`. `job`: every task is started again, as
            synchronous training needs, because the collectives of the survivors are broken after one failure.
        limit: how many restarts a run may have: of single tasks under `task`, of the whole job under `job`. The failure
            after the last one fails the run. There is no pause before a restart.
    """

    kind: str = "none"
    limit: int = 0

    @classmethod
    def of(cls, restarts: int, policy: str | None, topology: Topology) -> RestartPolicy:
        """The policy for a topology: with ps tasks `task`, otherwise `job`, unless one is named.

        Raises:
            UsageError: a negative count, an unknown policy, or a policy without a count.
        """
        if restarts < 0:
            raise UsageError(f"restarts={restarts!r} is not a count; give a whole number from 0")
        if policy is not None and policy not in POLICIES:
            raise UsageError(f"restart_policy={policy!r} is not known; accepted are {', '.join(POLICIES)}")
        if policy in ("task", "job") and not restarts:
            raise UsageError(f"restart_policy={policy!r} restarts nothing without a count; add restarts=N")
        if not restarts:
            return cls()
        return cls(kind=policy or ("task" if topology.ps else "job"), limit=restarts)

    def names(self, tasks: Mapping[str, Task]) -> list[str]:
        """The tasks to start again now that at least one of `tasks` has failed."""
        failed = [name for name, task in tasks.items() if task.error is not None]
        # An evaluator takes no part in collectives: its failure breaks nobody else.
        if self.kind == "task" or all(tasks[name].job == "evaluator" for name in failed):
            return failed
        return list(tasks)

    def cost(self, tasks: Mapping[str, Task]) -> int:
        """How many restarts it takes to start `names` again."""
        return 1 if self.kind == "job" else len(self.names(tasks))

    def allows(self, tasks: Mapping[str, Task], spent: int) -> bool:
        """Whether the failed ones of `tasks` can be started again after `spent` restarts."""
        return spent + self.cost(tasks) <= self.limit


def has_done(task: Task) -> bool:
    """Whether this process has come to the end of its work: the function returned, or the program ended with 0."""
    return task.error is None and (task.result is not None or (task.ended and task.exit == 0))


def group_members(group: int) -> list[int]:
    """Process ids of the living members of a process group; one that has ended and was not waited for is not alive."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # it has just ended
                continue
            # PID (NAME) STATE PARENT GROUP ...; the name may hold blanks and parentheses.
            state, _, member_of = stat.rpartition(")")[2].split()[:3]
            if int(member_of) == group and state not in "ZX":
                found.append(int(entry.name))
    return found


def kill_surely(tasks: Sequence[Task], changed: threading.Condition, seconds: float = 30.0) -> None:
    """SIGKILL the process groups of these tasks, which also ends stopped processes, and wait until nobody is left.

    Args:
        tasks: who is to end; whether that is a failure is said before, with `announce_end`.
        changed: announces the end of a task.
        seconds: how long to wait.

    Raises:
        DeadlineExceeded: a process is still alive.
    """
    groups = [task.pid for task in tasks if task.pid is not None and task.signal_group(signal.SIGKILL)]
    groups += [task.pid for task in tasks if task.pid is not None and task.alive and task.pid not in groups]
    deadline = time.monotonic() + seconds
    with changed:
        while any(task.alive for task in tasks) or any(group_members(group) for group in groups):
            if time.monotonic() > deadline:
                raise DeadlineExceeded("tasks and what they had started to end after SIGKILL", seconds)
            for task in tasks:
                # Again: a process that had just been forked leads no group yet, and none of the first signals met it.
                if task.alive:
                    task.send_signal(signal.SIGKILL)
                    task.signal_group(signal.SIGKILL)
            changed.wait(0.01)  # the end of a task is announced, that of a process which it had started is not
