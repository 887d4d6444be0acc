"""Timelines as a trace file for Perfetto and chrome://tracing, in the Trace Event Format (JSON object form).

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from harness.report.timeline.model import FaultRow, Save, Timeline

_LIVES, _STEPS, _MARKS, _FAULTS = 1, 2, 3, 10
# Lanes of saves that overlap those in the first one: asynchronous ones, and those of several threads.
_MORE_SAVES = 1000

Event = dict[str, Any]


def trace_json(timelines: Sequence[Timeline]) -> bytes:
    """One process for each task, with lanes for its processes, steps, saves and faults; times in microseconds.

    Several runs follow each other by the wall clock, each with processes of its own.
    """
    first = min((timeline.wall for timeline in timelines), default=0.0)
    events: list[Event] = []
    pid = 1
    for timeline in timelines:
        shift = _microseconds(timeline.wall - first)
        for found in _events(timeline, pid, f"{timeline.name} " if len(timelines) > 1 else ""):
            events.append(found if found["ph"] == "M" else {**found, "ts": found["ts"] + shift})
        pid += len(timeline.tasks) + 2
    return msgspec.json.encode({"displayTimeUnit": "ms", "traceEvents": events})


def _events(timeline: Timeline, pid: int, prefix: str) -> Iterator[Event]:
    """Events of one run, with times since its start. From `pid` on come its tasks, then its links, then its plan."""
    pids = {task: pid + number for number, task in enumerate(timeline.tasks)}
    links, plan = pid + len(pids), pid + len(pids) + 1
    for task, number in pids.items():
        yield _named("process_name", number, f"{prefix}{task}")
        for lane, name in ((_LIVES, "process"), (_STEPS, "steps"), (_MARKS, "saves")):
            yield _named("thread_name", number, name, lane)
    yield from _tasks(timeline, pids)
    if timeline.conditions or timeline.links:
        yield _named("process_name", links, f"{prefix}links")
        yield from _conditions(timeline, links)
    if timeline.faults:
        yield _named("process_name", plan, f"{prefix}plan")
    for lane, fault in enumerate(timeline.faults, start=_FAULTS):
        # Slices of one lane must be nested, which two faults need not be.
        for number in [pids[task] for task in fault.tasks if task in pids] or [plan]:
            yield _named("thread_name", number, f"fault {fault.id}", lane)
            yield from _fault(timeline, fault, number, lane)
        for name, sighting in (("detected", fault.detected), ("recovered", fault.recovered)):
            if sighting is not None and sighting.task in pids:
                yield _instant(
                    f"{fault.id} {name}", pids[sighting.task], _LIVES, sighting.at, {"what": sighting.what}, scope="p"
                )


def _tasks(timeline: Timeline, pids: dict[str, int]) -> Iterator[Event]:
    for life in timeline.lives:
        pid = pids[life.task]
        end = timeline.seconds if life.end is None else life.end
        args: dict[str, Any] = {"exit": life.exit, "signal": life.signal, "asked": life.asked, "error": life.error}
        args |= {"machine": life.machine} if life.machine else {}
        yield _slice(f"incarnation {life.incarnation}", pid, _LIVES, life.begin, end, args)
        if life.failed_at is not None:
            yield _instant("error", pid, _LIVES, life.failed_at, {"error": life.error, "planned": life.planned})
        # Before the first step the process starts, builds and traces, which is no part of a step.
        before = life.steps[0][1] if life.steps else 0.0
        for number, at in life.steps:
            yield _slice(f"step {number}", pid, _STEPS, before, at, {"step": number, "incarnation": life.incarnation})
            before = at
    for mark in timeline.marks:
        yield _instant(mark.what, pids[mark.task], _MARKS, mark.at, {"incarnation": mark.incarnation})
    for task, pid in pids.items():
        yield from _saves(timeline.saves_of(task), pid)


def _saves(saves: Sequence[Save], pid: int) -> Iterator[Event]:
    """Slices; those of one lane must not overlap."""
    ends: list[int] = []
    for save in saves:
        lane = next((n for n, end in enumerate(ends) if end <= _microseconds(save.begin)), len(ends))
        ends[lane : lane + 1] = [_microseconds(save.end)]
        number = _MORE_SAVES + lane if lane else _MARKS
        if lane and lane == len(ends) - 1:
            yield _named("thread_name", pid, "more saves", number)
        args = {name: getattr(save, name) for name in ("kind", "step", "bytes", "failed", "unfinished", "asynchronous")}
        name = f"{'restore' if save.restores else 'save'} {save.path or 'nothing'}"
        yield _slice(name, pid, number, save.begin, save.end, {**args, "incarnation": save.incarnation})


def _conditions(timeline: Timeline, pid: int) -> Iterator[Event]:
    for lane, condition in enumerate(timeline.conditions, start=1):
        end = timeline.seconds if condition.end is None else condition.end
        yield _named("thread_name", pid, condition.link, lane)
        yield _slice(condition.link, pid, lane, condition.begin, end, {})
    for link in timeline.links:
        name = f"{link['src']} -> {link['dst']}"
        yield _instant(name, pid, len(timeline.conditions) + 1, timeline.seconds, link)


def _fault(timeline: Timeline, fault: FaultRow, pid: int, lane: int) -> Iterator[Event]:
    if fault.struck is None:
        return
    end = timeline.seconds if fault.undone is None else fault.undone
    args = {"trigger": fault.trigger, "fired": fault.fired, "effect": fault.effect, "problem": fault.problem}
    yield _slice(f"{fault.id} ({fault.kind})", pid, lane, fault.struck, end, args)


def _named(what: str, pid: int, name: str, tid: int = 0) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _slice(name: str, pid: int, tid: int, begin: float, end: float, args: dict[str, Any]) -> Event:
    return {
        "ph": "X",
        "name": name,
        "cat": "lockstep",
        "pid": pid,
        "tid": tid,
        "ts": _microseconds(begin),
        # Whole numbers on both sides: slices that follow each other must not overlap by a rounding.
        "dur": max(0, _microseconds(end) - _microseconds(begin)),
        "args": args,
    }


def _instant(name: str, pid: int, tid: int, at: float, args: dict[str, Any], scope: str = "t") -> Event:
    return {
        "ph": "i",
        "name": name,
        "cat": "lockstep",
        "pid": pid,
        "tid": tid,
        "ts": _microseconds(at),
        "s": scope,
        "args": args,
    }


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)
