"""What a fault is: where and when it strikes, what it does, how it is undone, and what proves that it did.

A kind is one file of `simulator.faults.kinds` with one subclass of `Fault`. The injector calls, in this order,
`inject` (while the tasks stand at the trigger), `measure` (when they go on), and `undo` (always, also when the run
fails). Each returns what it has observed, which goes into the journal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Protocol

import msgspec
from msgspec.structs import FieldInfo, fields

from simulator.errors import LockstepError, UsageError, meant
from simulator.faults.values import FaultValue
from simulator.network import Link, LinkRule
from simulator.run.protocol import Running
from simulator.run.task import Task
from simulator.units import parse_duration

Effect = dict[str, Any]

# How long faults of a search last, the simplest first: on both sides of the 10 s in which TensorFlow notices a silent
# task.
LASTING = ("1s", "300ms", "12s")
TRIGGERS = ("step", "phase", "bytes", "connections", "log", "time")
POINTS = {
    "save": "before_save",
    "save:begun": "in_save",
    "save:data-written": "after_data_before_index",
    "save:done": "after_save",
    "restore": "before_restore",
    "cluster": "at_barrier",
    "file-op": "file_operation",
    "collective": "collective",
}
"""The points of a program besides its steps, by their names for `at`, and the phases that they are."""
PHASES = tuple(POINTS.values())
# A count has no more digits.
_POINT = re.compile(r"(?P<name>.*?)(:(?P<nth>\d{1,10}(\.\.\d{1,10})?))?")


class NoEffect(LockstepError):
    """Raised when a fault was applied and what should follow from it was not observed."""


class Scene(Protocol):
    """What a fault can see and do while it is applied; the injector provides it."""

    run: Running
    # The id of the fault.
    name: str
    tasks: Sequence[str]
    # The incarnations of these tasks that were alive at the trigger.
    processes: Sequence[Task]
    # The condition on the network that a trigger on a link has put in force, or that the fault itself has.
    rule: LinkRule | None
    # What a fault wants to know again when it is undone.
    memory: dict[str, Any]

    def task(self, name: str) -> Task:
        """The present incarnation of a task."""

    def wait(self, done: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
        """Wait for an observation; raises NoEffect, naming `what`, when it does not come in time."""

    def pause(self, seconds: float | None) -> bool:
        """Let this time pass (None: until the end); False when faults are to be undone before that."""

    def hold_each_step(self, task: str, seconds: float) -> None:
        """From now on let this task stand for so long after each step; 0 ends that."""

    def held_steps(self, task: str) -> int:
        """How often it has stood so."""

    def act(self, task: str, kind: str, **arguments: Any) -> None:
        """Have the agent of a task that stands at its gate do something before it goes on."""

    @property
    def ending(self) -> bool:
        """Whether the run is over: nothing shall be started any more."""

    @property
    def out_of_time(self) -> bool:
        """Whether nobody may wait for anything any more; `wait` looks at it by itself."""


class Fault(
    msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind"
):
    """Base of all kinds: exactly one of the triggers, the keys that refine it, and a name.

    Durations, sizes and rates are text with a unit (`1s`, `64KiB`, `100MB/s`). A count or such a text may be a range,
    `10..20` or `1s..3s`, from which the plan's seed draws. Tasks are `worker:1`, `worker:0-31`, `worker:*`, `*`, and
    `worker:?` for one drawn task.

    Attributes:
        step: the training step after which it strikes, from 1; 0 is just before the function is called.
        of: the tasks whose step or phase counts; all of them must have come there. Without it those of the fault.
        at: the point of the program at which it strikes, one of `POINTS`, and which time that is reached:
            `save:data-written`, `collective:3`. It is `phase` and `nth` in one, and becomes these.
        phase: the point of a checkpoint or of the cluster's life at which it strikes; see `PHASES`.
        nth: which time that point is reached, from 1; each incarnation counts anew.
        incarnation: the one of `of` in which the step or phase counts, from 0; without it the first that comes there.
        bytes: strikes when the link from `src` to `dst` has carried this much.
        connections: strikes with this connection from `src` to `dst`, from 1.
        log: strikes when a line of a task's log matches this regular expression.
        time: strikes this long after the start; not reproducible to the step, so the last resort.
        until: undo it when the tasks of `of` have come to this later step, instead of after a duration.
        id: names the fault in reports; also its random stream, which is otherwise that of its place in the plan.

    What a kind says of itself, besides what it does:

    Attributes:
        environment: the kind stands for a shortage of the machine, which a report does not blame on the product.
        in_task: the agent applies it at the task's own gate.
        clients_only: only tasks that run the function can be struck.
        implied: the trigger that a kind has by itself.
        drawn: keys that are drawn when they are not given, and from what.
        values: what keys of this kind take, where that is not what `simulator.faults.values.UNITS` says.
        needed: keys without which the kind makes no sense.
        repeats: what of its effect does not depend on how fast the machine is, so that a second run repeats it.
        cause: what stops trainings in this way, by the names of `harness.search.profiles`; empty for no such cause.
        searched: what a search draws keys from, the simplest value first: plans are shrunk towards it.
        unsearched: why a search does not draw the kind, after its name; empty where it does.
        strikes_many: whether several tasks are struck at once by one such cause, as by a power cut.
        may_end_run: a program may end with an error after it, as long as it ends.
        of_machines: whether it strikes whole machines, so that it needs others than this one.
        needs_cable: whether it needs the command that pulls the cable of a machine.
        plainest: the kind that does the same to its tasks, and needs the least.
        felt_by_peers: whether it only lets time pass, which who is not waited for does not notice.
        anywhere: whether it can strike tasks on other machines: it needs nothing of a task but its agent and signals.
    """

    step: int | str | None = None
    of: str | tuple[str, ...] | None = None
    at: str | None = None
    phase: str | None = None
    nth: int | str = 1
    incarnation: int | str | None = None
    bytes_: str | None = msgspec.field(name="bytes", default=None)
    connections: int | str | None = None
    src: str | None = None
    dst: str | None = None
    log: str | None = None
    time: str | None = None
    until: int | str | None = None
    id: str | None = None

    environment: ClassVar[bool] = False
    in_task: ClassVar[bool] = False
    clients_only: ClassVar[bool] = False
    implied: ClassVar[Mapping[str, object]] = {}
    drawn: ClassVar[Mapping[str, str]] = {}
    values: ClassVar[Mapping[str, FaultValue]] = {}
    needed: ClassVar[tuple[str, ...]] = ()
    repeats: ClassVar[tuple[str, ...]] = ()
    cause: ClassVar[str] = ""
    searched: ClassVar[Mapping[str, Sequence[Any]]] = {}
    unsearched: ClassVar[str] = ""
    strikes_many: ClassVar[bool] = False
    may_end_run: ClassVar[bool] = False
    anywhere: ClassVar[bool] = False
    plainest: ClassVar[str] = ""
    felt_by_peers: ClassVar[bool] = False
    of_machines: ClassVar[bool] = False
    needs_cable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.at is None:
            return
        if self.phase is not None or self.nth != 1:
            raise UsageError(f"at={self.at} is a phase and its nth; leave phase= and nth= out")
        phase, nth = _phase_and_number(self.at)
        for key, value in (("at", None), ("phase", phase), ("nth", nth)):
            msgspec.structs.force_setattr(self, key, value)

    @property
    def kind(self) -> str:
        """The name of the kind."""
        return str(type(self).__struct_config__.tag)

    @property
    def triggers(self) -> list[str]:
        """Those of `TRIGGERS` that were given."""
        return [name for name in TRIGGERS if getattr(self, f"{name}_" if name == "bytes" else name) is not None]

    @property
    def trigger(self) -> str:
        """Which of `TRIGGERS` it waits for."""
        given = self.triggers
        if len(given) != 1:
            raise UsageError(
                f"a fault of kind {self.kind} needs exactly one trigger and has {_told(given) or 'none'}; "
                f"triggers are {_told(TRIGGERS)}"
            )
        return given[0]

    @property
    def point(self) -> str | None:
        """Its phase as `at` has it: `save:begun`, or `save:begun:2` for the second time."""
        if self.phase is None:
            return None
        name = next(name for name, phase in POINTS.items() if phase == self.phase)
        return name if self.nth == 1 else f"{name}:{self.nth}"

    @property
    def gate(self) -> str | None:
        """The point of the program at which tasks stop for it, None if its trigger is none of the program."""
        if self.trigger == "step":
            return self.in_incarnation(f"step:{self.step}")
        return self.in_incarnation(f"phase:{self.phase}:{self.nth}") if self.trigger == "phase" else None

    def in_incarnation(self, gate: str) -> str:
        """The gate, of the incarnation that counts."""
        return gate if self.incarnation is None else f"{gate}@{self.incarnation}"

    @property
    def hooks(self) -> tuple[str, ...]:
        """What has to be patched in the tasks of `of` before the program begins; see `simulator.agent.faults`."""
        return () if self.phase is None else (f"phase:{self.phase}",)

    @property
    def stands_each_step(self) -> tuple[str, ...]:
        """The tasks that have to stand at each of their steps for it."""
        return ()

    def trigger_link(self) -> Link | None:
        """The condition that the relay shall put in force itself when the trigger on the link comes."""
        return None

    def needs_relay(self, *, hosts: bool) -> bool:
        """Whether connections have to go through the relay for it; `hosts`: whether each task has one of its own."""
        return self.trigger in ("bytes", "connections")

    def check(self) -> None:
        """Raise UsageError if values of this kind make no sense together."""

    def inject(self, scene: Scene) -> Effect:
        """Apply it; the tasks that triggered it stand still. Returns what proves it, so far."""
        raise NotImplementedError

    def measure(self, scene: Scene) -> Effect:
        """Observe what can be seen only when the tasks go on. Raises NoEffect when it does not happen."""
        return {}

    def stay(self, scene: Scene) -> None:
        """Return when it is time to undo: after `duration`, where the kind has one, or else at the end."""
        duration = getattr(self, "duration", None)
        scene.pause(None if duration is None else parse_duration(duration, "duration"))

    @property
    def is_proved_at_once(self) -> bool:
        """Whether `inject` has seen all that proves it, so that nothing is left to `measure`."""
        return type(self).measure is Fault.measure

    def undo(self, scene: Scene) -> Effect:
        """Take it back as far as that is possible. Always called, at most once, after `inject` was begun."""
        return {}

    @property
    def lasts(self) -> bool:
        """Whether it goes on for a time, so that `until` makes sense."""
        return True

    @property
    def brings_back(self) -> bool:
        """Whether its undo starts tasks again, for which the run has to wait."""
        return False


def _told(triggers: Iterable[str]) -> str:
    return ", ".join("at" if name == "phase" else name for name in triggers)


def gate_of_point(at: str) -> str:
    """The gate at which tasks stop for what `at` says."""
    return "phase:{}:{}".format(*_phase_and_number(at))


def _phase_and_number(at: str) -> tuple[str, int | str]:
    """`collective` and 3 of `collective:3`; a range such as `2..4` stays what it is."""
    match = _POINT.fullmatch(at)
    if match is None or match["name"] not in POINTS:
        raise UsageError(
            f"at={at[:80]!r} is unknown; {meant(at, POINTS)}give one of {', '.join(POINTS)}, with a number as in "
            "collective:3 for another time than the first"
        )
    nth = match["nth"] or "1"
    return POINTS[match["name"]], int(nth) if nth.isdecimal() else nth


class TaskFault(Fault, frozen=True):
    """A fault that strikes tasks; several at once if `task` names several.

    In Python the task comes first, as in `Kill("ps:0", step=3)`.
    """

    task: str | tuple[str, ...] = ""

    needed: ClassVar[tuple[str, ...]] = ("task",)


@cache
def fields_of(kind: type[Fault]) -> tuple[FieldInfo, ...]:
    """The keys of a kind; msgspec works them out anew each time, which a search over thousands of plans would feel."""
    return fields(kind)


class LinkFault(Fault, kw_only=True, frozen=True):
    """A fault of the links from `src` to `dst`, and of those back unless `one_way`, for `duration`."""

    duration: str | None = None
    one_way: bool = False

    anywhere: ClassVar[bool] = True
    needed: ClassVar[tuple[str, ...]] = ("src", "dst")
