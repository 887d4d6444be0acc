"""What runs under faults have shown: the points that tasks passed, those that faults met, and how the job recovered."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulator import FaultPlan
from simulator.faults.protocol import POINTS

State = tuple[str, ...]
"""A state of the job: what it is of, a key of `_WORDS`, and the words that tell it from others."""
# What each kind of state is called, once and several times.
_WORDS = {
    "death": ("way to die", "ways to die"),
    "line": ("log line", "log lines"),
    "margin": ("margin of a law", "margins of laws"),
    "order": ("order between tasks", "orders between tasks"),
    "recovery": ("state of recovery", "states of recovery"),
    "stack": ("stack of an error", "stacks of errors"),
}
_TOLD_MAX, _STATES_MAX = 3, 2000
_ENDS_EPOCH = "end of an epoch"
_NAMES = {phase: name for name, phase in POINTS.items()}


@dataclass(frozen=True, order=True)
class Point:
    """A point of the program at which faults can strike, passed by one incarnation of a task.

    Attributes:
        task: that passes.
        incarnation: of it.
        gate: `step:3`, or `phase:in_save:2`.
        what: is about to be done there, such as `write checkpoint`; empty where the gate says it all.
    """

    task: str
    incarnation: int
    gate: str
    what: str = ""

    @property
    def place(self) -> str:
        """The point without its numbers: `step`, `in_save`, or `remove ckpt-N.index`."""
        return re.sub(r"\d+", "N", self.what) or self.gate.removeprefix("phase:").rpartition(":")[0]

    @property
    def number(self) -> int:
        """Which time the gate is passed."""
        return int(self.gate.rpartition(":")[2])

    @property
    def trigger(self) -> dict[str, Any]:
        """The keys of a fault that strikes here."""
        return self._at | ({"incarnation": self.incarnation} if self.incarnation else {})

    @property
    def _at(self) -> dict[str, Any]:
        kind, _, rest = self.gate.partition(":")
        phase, _, number = rest.rpartition(":")
        return {"step": int(number)} if kind == "step" else {"at": f"{_NAMES[phase]}:{number}"}

    def __str__(self) -> str:
        again = f", incarnation {self.incarnation}" if self.incarnation else ""
        at = "".join(f"{key}={value}" for key, value in self._at.items())
        return f"{at}{f' ({self.what})' if self.what else ''} of {self.task}{again}"


@dataclass(frozen=True)
class RunSituations:
    """What one run has shown.

    Attributes:
        passed: every point that a task passed, in the order of time.
        met: where each fault of the plan struck; None where it did not, or not at such a point.
        states: of the job.
    """

    passed: tuple[Point, ...] = ()
    met: tuple[Point | None, ...] = ()
    states: frozenset[State] = frozenset()


@dataclass
class Coverage:
    """What all runs of a search have shown together.

    Attributes:
        points: those of the run without a fault, at each of which a fault can strike.
        met: how often a fault struck at a point.
        states: in how many runs a state was seen that the run without a fault was not in.
        usual: the states of the run without a fault.
    """

    points: tuple[Point, ...] = ()
    met: Counter[Point] = field(default_factory=Counter)
    states: Counter[State] = field(default_factory=Counter)
    usual: frozenset[State] = frozenset()

    def begin(self, undisturbed: RunSituations) -> None:
        """Take the points and states of the run without a fault for those that are there without one."""
        self.points, self.usual = undisturbed.passed, undisturbed.states

    def add(self, shown: RunSituations) -> int:
        """Add what a run has shown; returns how many points it met, and states it was in, that nothing had before."""
        new = {point for point in shown.met if point is not None} - set(self.met)
        states = shown.states - self.usual
        if len(self.states) >= _STATES_MAX:  # a log that is another in each run is no news
            states = frozenset(state for state in states if state[0] != "line" or state in self.states)
        fresh = len(new) + len(states - set(self.states))
        self.met.update(point for point in shown.met if point is not None)
        self.states.update(states)
        return fresh

    @property
    def missing(self) -> list[Point]:
        """Points of the run without a fault that no fault has met."""
        return [point for point in self.points if point not in self.met]

    def __str__(self) -> str:
        missing = self.missing
        seen = Counter(state[0] for state in self.states)
        notes = [f"{len(self.points) - len(missing)} of {len(self.points)} situations met by a fault"]
        if again := sum(1 for point in self.met if point.incarnation):
            notes.append(f"{again} in tasks that had been started again")
        notes += [f"{count} {_WORDS[kind][count > 1]}" for kind, count in sorted(seen.items())]
        text = ", ".join(notes)
        if missing:
            rest = len(missing) - _TOLD_MAX
            text += f"; never: {'; '.join(map(str, missing[:_TOLD_MAX]))}{f' and {rest} more' if rest > 0 else ''}"
        return text

    def to_json(self) -> dict[str, Any]:
        """All of it, as data."""
        return {
            "situations": len(self.points),
            "met": [{"at": str(point), "times": times} for point, times in sorted(self.met.items())],
            "missing": [str(point) for point in self.missing],
            "states": [{"state": list(state), "runs": runs} for state, runs in sorted(self.states.items())],
        }


def shown_by(events: Sequence[Mapping[str, Any]], plan: FaultPlan, epoch_ends: Collection[int] = ()) -> RunSituations:
    """What a journal with points shows of a run under this expanded plan; `epoch_ends` are steps of a whole run."""
    passed = tuple(_points(events, epoch_ends))
    met: dict[str, Point] = {}
    gates = {fault.id: (fault.gate, set(fault.of or ())) for fault in plan.faults}
    known = {(point.task, point.incarnation, point.gate): point for point in passed}
    states: set[State] = set()
    for place, event in enumerate(events):
        if event["event"] != "fired" or event["fault"] not in gates:
            continue
        gate, of = gates[event["fault"]]
        stood = [
            known.get((each["task"], each["incarnation"], each["gate"].partition("@")[0]))
            for each in events[:place]
            if each["event"] == "gate" and each["gate"] == gate and each["task"] in of
        ]
        if stood and (point := stood[-1]) is not None:
            met[event["fault"]] = point
            before = _points(events[:place], epoch_ends)
            others = sorted({each.task: each for each in before if each.task != point.task}.items())
            states |= {("order", point.place, task, at.place) for task, at in others}
    states |= {*_recoveries(events), *_deaths(events)}
    return RunSituations(passed, tuple(met.get(str(fault.id)) for fault in plan.faults), frozenset(states))


def _points(events: Iterable[Mapping[str, Any]], epoch_ends: Collection[int] = ()) -> Iterator[Point]:
    for event in events:
        if event["event"] == "step":
            # A task that was started again counts its steps anew.
            ends = not event["incarnation"] and event["number"] in epoch_ends
            what = _ENDS_EPOCH if ends else ""
            yield Point(event["task"], event["incarnation"], f"step:{event['number']}", what)
        elif event["event"] == "point":
            verb, *names = event["what"] or ("",)
            what = f"{verb} {' to '.join(reversed(names))}".strip()
            yield Point(event["task"], event["incarnation"], event["point"], what)


def _recoveries(events: Sequence[Mapping[str, Any]]) -> Iterator[State]:
    """What each task that was started again went on from, of what had been saved."""
    saved: dict[str, str] = {}
    fresh: dict[tuple[str, int], str] = {}
    for event in events:
        key = (event.get("task", ""), event.get("incarnation", 0))
        if event["event"] == "save" and not event["failed"] and not event["unfinished"] and event["path"]:
            saved[event["task"]] = event["path"]
        elif event["event"] == "hello" and key[1]:
            fresh[key] = "nothing restored" if saved else "nothing saved"
        elif event["event"] == "restore" and key in fresh:
            latest = event["path"] in saved.values()
            fresh[key] = "restore failed" if event["failed"] else "the last save" if latest else "another save"
    yield from (("recovery", task, how) for (task, _), how in fresh.items())


def _deaths(events: Iterable[Mapping[str, Any]]) -> Iterator[State]:
    """By which error each task ended that no fault had ended, and the last point that it had passed."""
    last: dict[str, str] = {}
    died: dict[tuple[str, int], State] = {}
    for event in events:
        for point in _points([event]):
            last[point.task] = point.place
        if event["event"] == "error" and not event["planned"]:
            task = event["task"]
            died[task, event["incarnation"]] = ("death", task, event["kind"], last.get(task, "the start"))
        elif event["event"] == "fired":
            for task in event["effect"].get("ended", ()):
                died.pop(max((each for each in died if each[0] == task), default=(task, 0)), None)
    yield from died.values()
