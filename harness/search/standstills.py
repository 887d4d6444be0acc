"""How long a run under faults stood still, beyond what its faults and the timeouts of TensorFlow need.

Nobody is waited for there: the time belongs to the program, which may wait for a lock that a killed process has left,
or try something again and again that cannot succeed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.faults import Fault
from simulator.faults.protocol import fields_of
from simulator.faults.values import UNITS
from simulator.units import parse_duration

if TYPE_CHECKING:
    from harness.report.timeline import FaultRow, Life, Timeline

SLOWNESS = "10s"
"""A run that stands still for longer has failed, where nothing else was asked for."""
_NOTICED_SECONDS = 13.0
"""TensorFlow notices a dead or silent peer within 10.4 s (docs/faults-measured.md); its peers have 2 s for errors."""
_TIMES_USUAL = 3.0
_MORE_SECONDS = 1.0
"""A busy machine makes the longest pause of a healthy run so many times as long, and so much longer."""


@dataclass(frozen=True)
class Standstill:
    """A time in which no task did anything that can be seen.

    Attributes:
        begin: in seconds since the start of the run.
        end: likewise.
        after: what came before it.
        before: what ended it.
        lost: the seconds of it that nothing explains.
    """

    begin: float
    end: float
    after: str
    before: str
    lost: float

    def __str__(self) -> str:
        return f"{self.end - self.begin:.1f} s between {self.after} and {self.before}"


def longest_gap(timeline: Timeline) -> float:
    """The longest time in which no task of a run did anything, in seconds."""
    return max((after - before for (before, _), (after, _) in _gaps(timeline)), default=0.0)


def standstills(timeline: Timeline, faults: Iterable[Fault], usual: float = 0.0) -> list[Standstill]:
    """When a run stood still for longer than its faults explain, the longest first.

    Args:
        timeline: of the run.
        faults: those of its expanded plan.
        usual: the longest gap of a run without a fault.
    """
    planned = {str(fault.id): fault for fault in faults}
    excused = [_excused(row, timeline, planned) for row in timeline.faults if row.struck is not None]
    # How long a checkpoint takes is a matter of its size, and a run without a fault restores none.
    excused += [(save.begin, save.end) for save in timeline.saves]
    found = []
    for (begin, after), (end, before) in _gaps(timeline):
        lost = _outside(begin, end, excused) - _TIMES_USUAL * usual - _MORE_SECONDS
        if lost > 0:
            found.append(Standstill(begin, end, after, before, lost))
    return sorted(found, key=lambda each: -each.lost)


def seconds_lost(found: Iterable[Standstill]) -> float:
    """The seconds of all of them that nothing explains."""
    return sum(each.lost for each in found)


_Moment = tuple[float, str]


def _gaps(timeline: Timeline) -> Iterator[tuple[_Moment, _Moment]]:
    return itertools.pairwise(sorted(_moments(timeline)))


def _moments(timeline: Timeline) -> Iterator[_Moment]:
    """When a task did something, and what it was."""
    for life in timeline.lives:
        who = _name(life.task, life.incarnation)
        yield life.begin, f"the start of {who}"
        if life.hello is not None:
            yield life.hello, f"the start of {who}"
        yield from ((at, f"step {number} of {who}") for number, at in life.steps)
        ends = [at for at in (life.failed_at, life.end) if at is not None]
        yield from ((at, f"the end of {who}") for at in ends)
    for save in timeline.saves:
        who, what = _name(save.task, save.incarnation), "restore" if save.restores else "save"
        yield save.begin, f"the beginning of a {what} by {who}"
        yield save.end, f"the end of a {what} by {who}"


def _name(task: str, incarnation: int) -> str:
    return f"{task}, incarnation {incarnation}" if incarnation else task


def _excused(row: FaultRow, timeline: Timeline, planned: Mapping[str, Fault]) -> tuple[float, float]:
    """From when until when a fault explains that nothing is done."""
    assert row.struck is not None
    fault = planned[row.id]
    if fault.lasts:
        # After it a connection waits as long again at most before it tries once more (RFC 6298 doubles each wait).
        until = timeline.seconds if row.undone is None else row.undone + (row.undone - row.struck)
        return row.struck, max(until, row.fired or 0.0)
    ordered = _ordered_seconds(fault)
    until = min((life.begin for life in _replacing(row, timeline.lives)), default=timeline.seconds)
    until = min(until, row.struck + ordered + _NOTICED_SECONDS)
    # Of a late start, or of grace, the journal may know nothing until it is over.
    return row.struck - ordered, max(until, row.fired or 0.0)


def _ordered_seconds(fault: Fault) -> float:
    """The time that a fault takes by what it says: until a restart, for grace, before a late start; each time."""
    kinds = {name: known.unit for name, known in {**UNITS, **fault.values}.items()}
    told = {field.name: getattr(fault, field.name) for field in fields_of(type(fault))}
    named = [name for name, value in told.items() if value is not None and kinds.get(name) == "duration"]
    seconds = sum(parse_duration(told[name], name) for name in named if name != "time")
    return float(told.get("times") or 1) * seconds


def _replacing(row: FaultRow, lives: tuple[Life, ...]) -> Iterator[Life]:
    """The processes that were started after a fault in place of those that it struck."""
    return (life for life in lives if life.task in row.tasks and life.incarnation and life.begin > (row.struck or 0.0))


def _outside(begin: float, end: float, excused: list[tuple[float, float]]) -> float:
    """How much of a time is in none of these."""
    left, at = 0.0, begin
    for first, last in sorted(excused):
        if first > at:
            left += max(0.0, min(first, end) - at)
        at = max(at, min(last, end))
    return left + max(0.0, end - at)
