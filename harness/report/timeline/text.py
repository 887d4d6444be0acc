"""A timeline as a few lines of text and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from harness.report.timeline.model import Life, Save, Sighting, Timeline
from harness.report.timeline.recovery import recovery_of

_TITLES = ("fault", "kind", "trigger", "struck", "detected", "recovered", "undone", "measured")


def lines(timeline: Timeline, width: int | None = None) -> list[str]:
    """Tasks with their processes, faults with their times, and what each directed link has carried.

    Args:
        timeline: the run.
        width: of the rows of the table of faults, which are cut there.
    """
    least = "at least " if timeline.ending == "cut off" else ""
    told = [f"{timeline.name}: {timeline.topology}, {least}{timeline.seconds:.1f} s"]
    if timeline.ended_early:
        told.append(timeline.ended_early)
    for task in timeline.tasks:
        told += [
            f"  {task}{_life(life, timeline.saves_of(task, life.incarnation))}" for life in timeline.lives_of(task)
        ]
    told += list(_machines(timeline))
    if timeline.faults:
        told += ["faults (seconds since the start; detected and recovered after the strike):"]
        told += (
            row if width is None or len(row) <= width else row[: width - 1] + "…" for row in _table([_TITLES], timeline)
        )
    told += [f"    {problem}" for problem in timeline.problems]
    if recovery := recovery_of(timeline):
        told += [recovery.text]
    if timeline.fenced:
        told += [f"ignored from replaced processes: {timeline.fenced} messages"]
    told += list(_links(timeline))
    return told


def _life(life: Life, saves: Sequence[Save]) -> str:
    number = f", incarnation {life.incarnation}" if life.incarnation else ""
    steps = f"{len(life.steps)} steps" if life.steps else "no steps"
    error = f"; {life.error.partition(chr(10))[0]}" if life.error and not life.planned else ""
    end = "" if life.end is None else f" at {life.end:.2f} s"
    where = f" on {life.machine}" if life.machine else ""
    return f"{number}{where}: from {life.begin:.2f} s, {steps}{_saves(saves)}, {life.ended}{end}{error}"


def _machines(timeline: Timeline) -> Iterator[str]:
    """How well the clock of each is known, and what has become of it."""
    if timeline.machines:
        yield "machines (orders of events of two of them that are closer than their clocks are known are undecided):"
    for machine in timeline.machines:
        silent = "".join(f"; not heard from {at:.2f} s on" for at in machine.silent)
        lost = "" if machine.lost is None else f"; lost at {machine.lost:.2f} s: {machine.why}"
        yield f"  {machine.name}: clock known to {1e3 * machine.clock_error:.2f} ms{silent}{lost}"


def _saves(saves: Sequence[Save]) -> str:
    """How many there were. An asynchronous one counts once, for its end."""
    told = ""
    for word, restores in (("saves", False), ("restores", True)):
        mine = [save for save in saves if save.restores == restores and save.asynchronous != "call"]
        counts = {
            "failed": sum(save.failed is not None for save in mine),
            "cut off": sum(save.unfinished for save in mine),
            "of nothing": sum(save.restores and save.path is None and save.failed is None for save in mine),
        }
        some = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        if mine:
            told += f", {len(mine)} {word if len(mine) > 1 else word[:-1]}" + (f" ({some})" if some else "")
    return told


def _table(rows: list[tuple[str, ...]], timeline: Timeline) -> Iterator[str]:
    for fault in timeline.faults:
        rows.append(
            (
                fault.id,
                fault.kind,
                fault.trigger,
                _seconds(fault.struck),
                _seen(fault.detection_seconds, fault.detected),
                _seen(fault.recovery_seconds, fault.recovered),
                _seconds(fault.undone),
                fault.problem or fault.measured or "-",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _seen(seconds: float | None, sighting: Sighting | None) -> str:
    if seconds is None or sighting is None:
        return "-"
    tied = f" or {', '.join(sighting.undecided)} (undecided)" if sighting.undecided else ""
    return f"+{seconds:.2f} {sighting.task}{tied}"


def _links(timeline: Timeline) -> Iterator[str]:
    if timeline.links:
        yield "links:"
    for link in timeline.links:
        counts = [
            f"{link[name]} {said}"
            for name, said in (
                ("dropped", "bytes dropped"),
                ("held", "bytes held"),
                ("refused", "refused"),
                ("resets", "reset"),
            )
            if link.get(name)
        ]
        carried = [f"{link['bytes']} bytes"]
        if link["connections"] or not link.get("packets"):  # between hosts without a relay nobody counts them
            carried.append(f"{link['connections']} connections")
        if link.get("packets"):
            carried.append(f"{link['lost']} of {link['packets']} packets lost")
        yield f"  {link['src']} -> {link['dst']}: {', '.join([*carried, *counts])}"


def as_data(timeline: Timeline) -> dict[str, Any]:
    """The timeline as JSON types; each fault has `detection_seconds` and `recovery_seconds`, and the whole `recovery`.

    They are null where there was none.
    """
    data: dict[str, Any] = msgspec.to_builtins(timeline)
    for table, fault in zip(data["faults"], timeline.faults, strict=True):
        table.update(detection_seconds=fault.detection_seconds, recovery_seconds=fault.recovery_seconds)
    recovery = recovery_of(timeline)
    data["recovery"] = recovery and recovery.as_data
    return data
