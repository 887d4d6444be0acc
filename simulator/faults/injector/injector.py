"""Carries out a fault plan while a run goes on: one thread for each fault, and one that keeps the gates."""

from __future__ import annotations

import time
from collections.abc import Sequence

from simulator.errors import TaskError
from simulator.faults.injector.gates import Gatekeeper
from simulator.faults.injector.strike import InjectionState, Limits, Strike
from simulator.faults.injector.triggers import points
from simulator.faults.plan.plan import FaultPlan
from simulator.faults.protocol import PHASES
from simulator.results import PlannedFault
from simulator.run.protocol import Running
from simulator.threads import Worker
from simulator.units import parse_duration

_UNDO_SECONDS_MAX = 60.0
# What the undo of every fault may take once a run has no time left: signals, limits lifted, a word to the relay.
_HASTY_UNDO_SECONDS_MAX = 5.0


class Injector:
    """Applies the faults of an expanded plan to one run, undoes them, and says which of them were not real.

    It is a `simulator.run.protocol.Companion` of the run.
    """

    def __init__(self, plan: FaultPlan) -> None:
        self.plan = plan
        where = points(plan.faults)
        slowed = {task for fault in plan.faults for task in fault.stands_each_step}
        self.keeper = Gatekeeper(where, slowed)
        self.gates = {task: [gate for of, gate in where if of == task] for task in {of for of, _ in where} | slowed}
        for task in slowed:
            self.gates[task].append("step:*")
        self.hooks: dict[str, list[str]] = {}
        wanted = [(task, hook) for fault in plan.faults for task in fault.of or () for hook in fault.hooks]
        if plan.points and plan.topology is not None:
            wanted += [(task, f"phase:{phase}") for task in plan.topology.clients for phase in PHASES]
        for task, hook in dict.fromkeys(wanted):
            there = f"{hook}:{plan.files or ''}" if hook == "phase:file_operation" else hook
            self.hooks.setdefault(task, []).append(there)
        self._season = InjectionState(self.keeper)
        self._strikes: list[Strike] = []
        self._problems: list[TaskError] = []
        self._stuck_at_last: list[str] = []
        self._finished = False
        self._healer: Worker | None = None

    def begin(self, run: Running) -> None:
        """Save the plan in the run's directory and start to wait for the triggers."""
        self._run = run
        (run.directory / "plan.json").write_text(self.plan.to_json())
        run.journal.write("plan", seed=self.plan.seed, faults=[fault.id for fault in self.plan.faults])
        self.keeper.begin(run)
        self._strikes = [Strike(fault, self._season, run) for fault in self.plan.faults]
        for strike in self._strikes:
            strike.start()
        self._healer = run.breakdown.worker("heal", self._heal, "the plan does not heal")
        if self.plan.heal is not None:
            self._healer.start()

    def busy(self) -> bool:
        """Whether tasks are still to be started again."""
        return any(strike.is_bringing_back for strike in self._strikes)

    def failed(self) -> bool:
        """Whether a task makes no progress although nothing disturbs it any more, or a fault has met with an error."""
        return bool(self._stuck_at_last) or any(strike.crashed for strike in self._strikes)

    def finish(self, patience: float = 0.0) -> Sequence[TaskError]:
        """Undo every fault and judge them all: one that did not fire, or had no effect, is an error.

        Args:
            patience: for so many seconds those under way may still wait for what proves them.
        """
        if self._finished:
            return self._problems
        self._finished = True
        now = time.monotonic()
        undo = _UNDO_SECONDS_MAX if patience else _HASTY_UNDO_SECONDS_MAX
        with self._run.changed:
            self._season.ending = True
            limits = self._season.limits = Limits(seen=now + patience, undone=now + patience + undo)
            self._run.changed.notify_all()
        for strike in self._strikes:
            strike.wait_end(limits.undone - time.monotonic())
        if self._healer is not None:
            self._healer.join()
        self.keeper.close()
        self._problems += [error for strike in self._strikes if (error := strike.verdict()) is not None]
        for error in self._problems:
            self._run.journal.write("fault_problem", kind=error.kind, message=error.message)
        return self._problems

    def faults(self) -> Sequence[PlannedFault]:
        """What has come of each."""
        return [
            PlannedFault(
                strike.name,
                strike.fault.kind,
                ", ".join(strike.tasks) or f"{strike.fault.src} -> {strike.fault.dst}" * bool(strike.fault.src),
                strike.describe_trigger(),
                strike.fired,
                strike.fired_at,
                strike.ended_for_good,
            )
            for strike in self._strikes
        ]

    def _heal(self) -> None:
        """After the time of chaos undo everything, then demand that each client gets on."""
        run = self._run
        with run.changed:
            due = run.began + parse_duration(self.plan.heal, "heal")
            if run.changed.wait_for(lambda: self._season.ending, max(0.0, due - time.monotonic())):
                return
            self._season.healed = True
            run.changed.notify_all()
            run.changed.wait_for(
                lambda: self._season.ending or all(strike.over for strike in self._strikes), _UNDO_SECONDS_MAX
            )
            run.journal.write("healed")
            before = {task.name: (task.incarnation, task.steps) for task in run.clients}
            run.changed.wait_for(
                lambda: self._season.ending or not self._stuck(before), parse_duration(self.plan.progress, "progress")
            )
            stuck = self._stuck(before)
            self._stuck_at_last = [] if self._season.ending else stuck
            self._problems += [
                TaskError(
                    name,
                    "NoProgress",
                    f"announced no step within {self.plan.progress} after all faults were undone",
                    at=time.monotonic(),
                )
                for name in self._stuck_at_last
            ]
            run.changed.notify_all()

    def _stuck(self, before: dict[str, tuple[int, int]]) -> list[str]:
        """The clients that have neither announced another step nor returned."""
        return [
            task.name
            for task in self._run.clients
            if task.result is None
            and not (task.ended and task.planned and not task.comes_back)
            and (task.incarnation, task.steps) <= before[task.name]
        ]
