"""What is started again after a failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.errors import UsageError
from simulator.machines.placement import Placement
from simulator.run.task import Task
from simulator.topology import Topology

POLICIES = ("none", "task", "job")


@dataclass(frozen=True)
class RestartPolicy:
    """What a run does about a failure that no plan asked for.

    Attributes:
        kind: `none`: the run fails. `task`: the failed task alone is started again, as a scheduler does with the
            workers and parameter servers of `ParameterServerStrategy`. `job`: every task is started again, as
            synchronous training needs, because the collectives of the survivors are broken after one failure. Both
            start every task again after the loss of a machine: what ran there gets other addresses, which nobody learns
            who is not started anew.
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

    def names(self, tasks: Mapping[str, Task], placement: Placement) -> list[str]:
        """The tasks to start again now that at least one of `tasks` has failed."""
        failed = [name for name, task in tasks.items() if task.error is not None]
        if placement.lost:
            return list(tasks)
        # An evaluator takes no part in collectives: its failure breaks nobody else.
        if self.kind == "task" or all(tasks[name].job == "evaluator" for name in failed):
            return failed
        return list(tasks)

    def cost(self, tasks: Mapping[str, Task], placement: Placement) -> int:
        """How many restarts it takes to start `names` again."""
        return 1 if self.kind == "job" or placement.lost else len(self.names(tasks, placement))

    def allows(self, tasks: Mapping[str, Task], placement: Placement, spent: int) -> bool:
        """Whether the failed ones of `tasks` can be started again after `spent` restarts."""
        return spent + self.cost(tasks, placement) <= self.limit


def forsaken(tasks: Mapping[str, Task], placement: Placement, policy: RestartPolicy) -> bool:
    """Whether a machine is lost with tasks whose end nobody had planned, and they cannot be had elsewhere."""
    names = [task for machine in placement.lost for task in placement.tasks(machine)]
    if not any(tasks[name].error is not None for name in names):
        return False
    return policy.kind == "none" or not placement.left


def has_done(task: Task) -> bool:
    """Whether this process has come to the end of its work: the function returned, or the program ended with 0."""
    return task.error is None and (task.result is not None or (task.ended and task.exit == 0))
