"""What disturbs a run: faults and conditions of its network, and the restarts that answer them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from harness.subject.strategies import StrategyCase
from simulator import Cluster, FaultPlan, Topology, UsageError
from simulator.arguments import check_kind
from simulator.faults import describe_plan

# Stands for `record.directory` in a plan, which is another one in each run.
RECORD = "record.directory"
_RESTARTS_SPARE = 3


@dataclass(frozen=True)
class Disturbance:
    """A plan of faults, and how often what fails may be started again.

    Attributes:
        plan: what goes wrong; a fault of a checkpoint names `record.directory` as its directory.
        restarts: restarts that the run may have; None for those that its faults can cause, and three more.
        restart_policy: as of `Cluster`.
    """

    plan: FaultPlan = field(default_factory=FaultPlan)
    restarts: int | None = None
    restart_policy: str | None = None

    @classmethod
    def of(cls, plan: FaultPlan | None, restarts: int | None, restart_policy: str | None) -> Disturbance | None:
        """What was asked for; None if nothing was.

        Raises:
            UsageError: no plan, or restarts without faults that they would answer.
        """
        check_kind("faults", plan, (FaultPlan, type(None)), "FaultPlan(faults=[...])")
        if plan is not None:
            return cls(plan, restarts, restart_policy)
        if restarts is not None or restart_policy is not None:
            raise UsageError("restarts answer faults; give faults, for example faults=FaultPlan.load('plan.toml')")
        return None

    def options(self, topology: Topology, kept: Path, root: str = "") -> dict[str, Any]:
        """The keyword arguments of a `Cluster` that is disturbed so.

        Args:
            topology: of the cluster.
            kept: its `record.directory`.
            root: where the files of a script's own view are seen from here, whose checkpoints faults damage.
        """
        restarts = _restarts_needed(self.plan, topology) if self.restarts is None else self.restarts
        policy = self.restart_policy if restarts or self.restart_policy == "none" else None
        return {"faults": _placed(self.plan, kept, root), "restarts": restarts, "restart_policy": policy}

    def to_json(self, topology: Topology) -> dict[str, Any]:
        """What verdicts say of it: the expanded plan as tables, and in one line."""
        plan = self.plan.expand(topology)
        return {"plan": plan.to_mapping(), "text": describe_plan(plan)}

    def check(self, case: StrategyCase, timeout: float) -> None:
        """Fail before anything starts if the cluster of this strategy cannot be disturbed so within `timeout` seconds.

        Raises:
            UsageError: an unknown task, a link where there is none, a fault that comes after the end of the run, or a
                plan that was written for other tasks.
        """
        topology, written_for = case.topology, self.plan.topology
        if written_for is not None and written_for.tasks != topology.tasks:
            raise UsageError(f"the plan was written for {written_for}, and the strategy runs on {topology}")
        Cluster(topology, timeout=timeout, **case.on, **self.options(topology, Path()))


def _restarts_needed(plan: FaultPlan, topology: Topology) -> int:
    """Each fault may end the job, a crash loop several times; where tasks are restarted one by one, each counts."""
    if not plan.faults and not plan.links:
        return 0
    deaths = sum(int(getattr(fault, "times", 1)) for fault in plan.faults)
    return (deaths + _RESTARTS_SPARE) * (len(topology.tasks) if topology.ps else 1)


def _placed(plan: FaultPlan, kept: Path, root: str) -> FaultPlan:
    """The plan with this run's `record.directory` in it, or with directories as its tasks see them."""

    def place(directory: str) -> str:
        if directory == RECORD:
            return str(kept)
        return f"{root}{Path(directory).absolute()}" if root else directory

    faults = [
        msgspec.structs.replace(fault, directory=place(directory))
        if (directory := getattr(fault, "directory", None))
        else fault
        for fault in plan.faults
    ]
    files = plan.files if plan.files is not None or root else str(kept)
    return msgspec.structs.replace(plan, faults=tuple(faults), files=files)
