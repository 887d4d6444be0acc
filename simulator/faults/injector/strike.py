"""One fault of a plan from its trigger to its undo, in a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.errors import RunEnded, TaskError
from simulator.faults.injector.gates import Gatekeeper
from simulator.faults.injector.triggers import until_gate, wait_trigger
from simulator.faults.protocol import Effect, Fault, NoEffect
from simulator.network import LinkRule
from simulator.run.protocol import Running
from simulator.run.task import Task
from simulator.threads import Worker
from simulator.wire.control import Action

_POLL_SECONDS = 0.005


@dataclass(frozen=True)
class Limits:
    """Until when, in seconds of CLOCK_MONOTONIC, faults may still be seen to work, and be undone."""

    seen: float
    undone: float


@dataclass
class InjectionState:
    """What all faults of a run share; guarded by the run's condition.

    Attributes:
        keeper: of the gates.
        ending: the run is over; nothing shall be started any more.
        healed: the plan has all faults undone.
        limits: set when the run is over.
    """

    keeper: Gatekeeper
    ending: bool = False
    healed: bool = False
    limits: Limits | None = None


class Strike:
    """Waits, applies, measures and undoes one fault; to the fault it is the `Scene`."""

    def __init__(self, fault: Fault, season: InjectionState, run: Running) -> None:
        self.fault = fault
        self.run = run
        self.name = str(fault.id)
        self.keeper = season.keeper
        self._season = season
        self.tasks: Sequence[str] = tuple(getattr(fault, "task", ()))
        self.processes: Sequence[Task] = ()
        # The condition on the network that is the fault, or that waits for its trigger.
        self.rule: LinkRule | None = None
        self.memory: dict[str, Any] = {}
        self.begun = self.fired = self.over = False
        # The plan had all faults undone while this one still waited for its trigger.
        self._came_too_late = False
        self.fired_at: float | None = None
        self.problem: str | None = None
        # It has ended by an error of the machine or of Lockstep, not for want of an effect.
        self.crashed = False
        self._undoing = False
        self._worker = Worker(f"fault-{fault.id}", self._main)

    def start(self) -> None:
        """Begin to wait for the trigger."""
        self._worker.start()

    def wait_end(self, seconds: float) -> None:
        """Wait for the end of the undo, at most so long; whether it has come is in `verdict`."""
        self._worker.ends(seconds)

    @property
    def is_bringing_back(self) -> bool:
        """Whether tasks will be started again that it has ended."""
        return self.begun and not self.over and self.fault.brings_back

    @property
    def ended_for_good(self) -> tuple[str, ...]:
        """The tasks that it has ended and that nobody has started again."""
        return tuple(task.name for task in self.processes if task.planned and self.run.tasks[task.name] is task)

    def verdict(self) -> TaskError | None:
        """What was wrong with it, in the end."""
        now = time.monotonic()
        where = f"fault {self.name} ({self.fault.kind}, {self.describe_trigger()})"
        if self.problem is not None:
            return TaskError("plan", "FaultWithoutEffect", f"{where} had no effect: {self.problem}", at=now)
        if not self.begun:
            return TaskError("plan", "FaultNotFired", f"{where} did not fire: {self._why_not()}", at=now)
        if not self.over:
            return TaskError("plan", "FaultNotUndone", f"{where} was not undone in time", at=now)
        return None

    def _why_not(self) -> str:
        """That its trigger never came, and how far the steps had come that it waited for."""
        if self._came_too_late:
            return "the plan healed before its trigger came"
        if self.fault.trigger != "step" or not self.fault.of:
            return "its trigger never came"
        counted = [(name, task) for name in self.fault.of if (task := self.run.tasks.get(name)) is not None]
        reached = [f"{name} came to {task.steps}" for name, task in counted if task.counted_by or task.steps]
        ways = dict.fromkeys(task.counted_by for _, task in counted if task.counted_by)
        if not reached:
            return "its trigger never came: no step was counted"
        by = f", counted by {' and '.join(ways)}" if ways else ""
        return f"its trigger never came: {', '.join(reached)}{by}"

    def describe_trigger(self) -> str:
        """`step=20 of worker:1`."""
        name = self.fault.trigger
        value = getattr(self.fault, "bytes_" if name == "bytes" else name)
        told = f"{name}={value}" if self.fault.point is None else f"at={self.fault.point}"
        more = "" if self.fault.incarnation is None else f" incarnation={self.fault.incarnation}"
        return f"{told}{more}" + (f" of {', '.join(self.fault.of)}" if self.fault.of else "")

    # -- the scene

    @property
    def ending(self) -> bool:
        """Whether the run is over."""
        return self._season.ending

    @property
    def stopping(self) -> bool:
        """Whether faults are to be undone now."""
        return self._season.ending or self._season.healed

    def task(self, name: str) -> Task:
        """The present incarnation of a task."""
        return self.run.tasks[name]

    @property
    def out_of_time(self) -> bool:
        """Whether the run, or the undo that follows its end, has no more time for what is waited for."""
        limits = self._season.limits
        return limits is not None and time.monotonic() >= (limits.undone if self._undoing else limits.seen)

    def wait(self, done: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
        """Wait for an observation; raises NoEffect, naming `what`, when it does not come in time."""
        deadline = time.monotonic() + seconds
        with self.run.changed:
            # Process states and counters announce themselves to nobody.
            while not done():
                if time.monotonic() >= deadline:
                    raise NoEffect(f"{what} was not seen within {seconds:g} s")
                if self.out_of_time:
                    raise NoEffect(f"{what} was not seen before the run had to end")
                self.run.changed.wait(_POLL_SECONDS)

    def pause(self, seconds: float | None) -> bool:
        """Let this time pass (None: until the end); False when faults are to be undone before that."""
        with self.run.changed:
            return not self.run.changed.wait_for(
                lambda: self.stopping or self.at_until(), None if seconds is None else max(0.0, seconds)
            )

    def hold_each_step(self, task: str, seconds: float) -> None:
        """From now on let this task stand for so long after each step; 0 ends that."""
        self.keeper.hold_each_step(task, self.name, seconds)

    def held_steps(self, task: str) -> int:
        """How often it has stood so."""
        return self.keeper.held_steps(task, self.name)

    def act(self, task: str, kind: str, **arguments: Any) -> None:
        """Have the agent of a task that stands at its gate do something before it goes on."""
        assert self.fault.gate is not None
        self.keeper.act(task, self.fault.gate, Action(kind=kind, fault=self.name, arguments=arguments))

    # -- its life

    def _main(self) -> None:
        try:
            if wait_trigger(self):
                self.begun = True
                self._apply()
            else:
                self._came_too_late = self._season.healed
        except RunEnded:
            pass  # what it would have started again is not wanted any more
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has to hear of it
            self.problem = f"{type(error).__name__}: {error}"
            self.crashed = True
        finally:
            self.keeper.done(self.name)
            with self.run.changed:
                self.over = True
                self.run.changed.notify_all()

    def _apply(self) -> None:
        try:
            # Another fault may be about to start it again; the new incarnation is the one to strike.
            self.wait(lambda: all(_is_settled(self.task(name)) for name in self.tasks), "the task to be up", 60.0)
            self.processes = [self.task(name) for name in self.tasks]
            effect = self.fault.inject(self)
            if self.fault.is_proved_at_once:
                # Before the next one has its turn at this point: events come in the order in which faults strike.
                self._has_fired(effect)
                self._give_turn()
            else:
                self._give_turn()
                self._has_fired({**effect, **self.fault.measure(self)})
            self.fault.stay(self)
        except NoEffect as error:
            self.problem = str(error)
        finally:
            # Whatever was in the way: a gate that stays shut, or a task that stays stopped, would hang the run.
            self._give_turn()
            self._undo()

    def _has_fired(self, effect: Effect) -> None:
        self.fired, self.fired_at = True, time.monotonic()
        environment = self.fault.environment
        self._write("fired", trigger=self.describe_trigger(), effect=effect, environment=environment)

    def _give_turn(self) -> None:
        """Let the next one strike at the point of the trigger, if that is a point; what ends it is another."""
        if self.fault.gate is not None:
            self.keeper.done(self.name, self.fault.gate)

    def _undo(self) -> None:
        self._undoing = True
        effect: Effect = {}
        try:
            effect = self.fault.undo(self)
        except NoEffect as error:
            self.problem = self.problem or str(error)
        self._write("undone", effect=effect, problem=self.problem)

    def at_until(self) -> bool:
        """Whether the step at which it is to be undone has come, or cannot come any more."""
        gate = until_gate(self.fault)
        if gate is None:
            return False
        of = self.fault.of or ()
        return self.keeper.has_turn(self.name, of, gate) or any(self.run.is_over(task) for task in of)

    def _write(self, event: str, **fields: object) -> None:
        self.run.journal.write(event, fault=self.name, kind=self.fault.kind, tasks=self.tasks, **fields)


def _is_settled(task: Task) -> bool:
    """Neither on its way up nor, being dead, about to be started again."""
    return not task.comes_back if task.ended else task.is_up
