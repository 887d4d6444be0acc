"""Whether a disturbed synchronous training is, step by step and bit by bit, the undisturbed one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from scenarios.programs.faulted.numbers import STEPS, truth
from scenarios.programs.faulted.surviving import Told
from scenarios.programs.faulted.synchronous import read_notes


def problems(told: Told, folder: Path, resumed: int | None = None) -> list[str]:
    """What is wrong with a run that should have survived; empty if nothing is.

    Every step of every incarnation has to have the loss, the weights and the velocity of the undisturbed run, with no
    tolerance. The first incarnation begins at the beginning, every later one after step `resumed`, and the last one
    comes to the end. No process may be left.

    Args:
        told: what came of the run.
        folder: the program's.
        resumed: the step after which the training was resumed; None if it has to have gone on without a restart.
    """
    found = [] if told.failure is None else [f"the run failed: {told.failure.root_cause}"]
    found += [f"orphaned: {told.orphans}"] if told.orphans else []
    for task in told.result:
        notes = list(read_notes(folder, task))
        found += [f"{task}: {text}" for text in _of_task(notes, resumed)]
    return found


def resumed_after(folder: Path, task: str = "worker:0") -> list[int]:
    """After which step each incarnation of a task has begun."""
    return [note["began_after"] for note in read_notes(folder, task) if "began_after" in note]


def straggler(folder: Path, tasks: Sequence[str], after: int) -> dict[str, float]:
    """Seconds by which each task came later into its steps than the first one did, on average, from step `after` on."""
    begun: dict[int, dict[str, float]] = {}
    for task in tasks:
        for note in read_notes(folder, task):
            if note.get("step", 0) > after:
                begun.setdefault(note["step"], {})[task] = note["began"]
    return {
        task: sum(times[task] - min(times.values()) for times in begun.values()) / max(1, len(begun)) for task in tasks
    }


def _of_task(notes: Sequence[dict[str, Any]], resumed: int | None) -> Iterator[str]:
    incarnations = [list(group) for _, group in groupby(notes, key=lambda note: note["incarnation"])]
    seen = [group[0].get("began_after") for group in incarnations]
    if seen[:1] != [0] or set(seen[1:]) != (set() if resumed is None else {resumed}):
        yield f"its incarnations began after steps {seen}, but it was to resume after {resumed}"
    for group in incarnations:
        steps = [note for note in group if "step" in note]
        numbers = [note["step"] for note in steps]
        if numbers != list(range(group[0]["began_after"] + 1, group[0]["began_after"] + 1 + len(numbers))):
            yield f"did steps {numbers}"
        for note in steps:
            loss, weights, velocity = truth()[note["step"] - 1]
            expected = {"loss": loss, "weights": list(weights), "velocity": list(velocity)}
            for name, value in expected.items():
                if note[name] != value:
                    yield f"incarnation {note['incarnation']}, step {note['step']}: {name} {note[name]}, not {value}"
                    return
    if not incarnations or incarnations[-1][-1].get("step") != STEPS:
        yield "did not come to the last step"
