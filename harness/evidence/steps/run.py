"""The evidence that all tasks of a run have left, step by step; of a run in parts as of one training."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.evidence.steps.live import LiveProcesses
from harness.evidence.steps.records import DRAWN, GIVEN, HeldVariable, PlaceValue, StepEvidence, StepPlace
from harness.evidence.steps.renaming import SAME, Renaming
from harness.evidence.steps.store import EvidenceReader, data_of

if TYPE_CHECKING:
    import numpy as np

_Found = list[tuple[EvidenceReader, PlaceValue]]
_STEPS_MAX = 100
"""Sizes are looked up in so many steps at most."""


class Segment(msgspec.Struct, frozen=True):
    """The steps of processes that trained together, as steps of the whole training.

    Attributes:
        folders: the stores of these processes.
        after: the step of the whole before the first of these, from 0.
        skipped: how many of their own steps are left out: calls that build variables, which the whole has had.
        live: of processes that are followed while they run; None of those that have ended.
        names: of variables in the whole.
    """

    folders: tuple[str, ...]
    after: int = 0
    skipped: int = 0
    live: LiveProcesses | None = None
    names: Renaming = SAME


def segment_of(traces: Path) -> Segment:
    """What all clients have left whose traces are in a directory."""
    return Segment(tuple(map(str, sorted(traces.glob("*.steps")))))


class RunStep:
    """The evidence of all tasks on one step.

    Attributes:
        index: the step of the whole, from 1.
        segment: the number of its segment, from 0; -1 where there is none.
        is_there: whether there is evidence of it.
        eager: as of `StepEvidence`, where it counts in the whole as in its own process.
        trained: as of `StepEvidence`.
        worker: as of `StepEvidence`.
        original: as of `StepEvidence`.
        function: as of `StepEvidence`.
        numbers: as of `StepEvidence`, of the first task.
        fed: as of `StepEvidence`, in any task.
        fills: as of `StepEvidence`.
        held: what each variable held when it began.
        reports: how often the program has reported since it began, in all tasks.
        recalled: how often what passed a place has been asked for, by the number of the replica.
    """

    def __init__(self, index: int, segment: int, found: Sequence[tuple[EvidenceReader, StepEvidence]]) -> None:
        self.index = index
        self.segment = segment
        self.is_there = bool(found)
        self.eager = found[0][1].eager if found and segment == 0 else None
        self.trained = all(step.trained for _, step in found)
        self.worker = found[0][1].worker if found else None
        self.original = found[0][1].original if found else None
        self.function = found[0][1].function if found else ""
        self.numbers = found[0][1].numbers if found else ()
        self.fed = any(step.fed for _, step in found)
        self.fills = any(step.fills for _, step in found)
        self.held = [(reader, each) for reader, step in found for each in step.before]
        self.reports = min((len(step.reported) for _, step in found), default=0)
        self.recalled: Counter[tuple[StepPlace, int]] = Counter()
        self._found = found
        self._passed: dict[StepPlace, dict[int, _Found]] = {}
        for reader, step in found:
            for each in step.passed:
                self._passed.setdefault(each.place, {}).setdefault(each.replica, []).append((reader, each))

    @property
    def arrays(self) -> dict[int, np.ndarray[Any, Any]]:
        """As of `StepEvidence`, those that are equal in all tasks."""
        of_tasks = [{place: reader.array(of) for place, of in step.arrays} for reader, step in self._found]
        return {
            place: array
            for place, array in (of_tasks[0].items() if of_tasks else ())
            if all(place in other and data_of(other[place]) == data_of(array) for other in of_tasks[1:])
        }

    @property
    def own(self) -> tuple[str, ...]:
        """The variables of which each replica had something of its own after it, where that was noted."""
        return tuple(_own([(reader, each) for reader, step in self._found for each in step.own]))

    def evaluation(self, number: int) -> RunStep:
        """A call after it that ran replicas and took no gradients, from 0, as a step that changes nothing."""
        found = [
            (reader, StepEvidence(self.index, passed=step.evaluations[number]))
            for reader, step in self._found
            if number < len(step.evaluations)
        ]
        return RunStep(self.index, self.segment, found if len(found) == len(self._found) else [])

    def evaluations(self) -> Iterator[RunStep]:
        """All of these."""
        return itertools.takewhile(lambda each: each.is_there, map(self.evaluation, itertools.count()))

    def reported(self, number: int) -> list[tuple[EvidenceReader, HeldVariable]]:
        """What variables held at a report of the program's since this step, from 0."""
        return [(reader, each) for reader, step in self._found for each in step.reported[number]]

    def replicas(self, place: StepPlace) -> list[_Found]:
        """What passed a place on each replica that came by, in the order of replicas and then of execution."""
        found = self._passed.get(place, {})
        return [found[replica] for replica in sorted(found)]

    @property
    def local_replicas(self) -> int:
        """How many replicas the first process had; 1 where nothing tells."""
        found = next(iter(self._passed.values()), {})
        readers = [each[0][0] for _, each in sorted(found.items())]
        return max(1, sum(reader is readers[0] for reader in readers))

    def rows(self) -> Iterator[tuple[int, ...]]:
        """How many rows each replica was given, of whatever all of them were given by one call."""
        for place in self._passed:
            if place.kind == GIVEN:
                for found in zip(*self.replicas(place), strict=False):
                    shapes = [passed.arrays[0].shape for _, passed in found]
                    if all(shapes):
                        yield tuple(shape[0] for shape in shapes)

    def given_shapes(self) -> Iterator[tuple[tuple[StepPlace, int], list[tuple[int, ...]]]]:
        """For each place, and array of it, the shapes that the replicas were given."""
        for place in (each for each in self._passed if each.kind == GIVEN):
            for found in zip(*self.replicas(place), strict=False):
                for part, arrays in enumerate(zip(*(passed.arrays for _, passed in found), strict=False)):
                    yield (place, part), [array.shape for array in arrays]

    @property
    def is_given(self) -> bool:
        """Whether it has passed examples to a call of `Strategy.run`."""
        return any(place.kind == GIVEN for place in self._passed)

    def draws(self) -> Iterator[tuple[str, bytes]]:
        """What its replicas have drawn, by the operations: those of a place one after another, each in its order."""
        for place in sorted(
            (each for each in self._passed if each.kind == DRAWN), key=lambda each: (each.run, each.number)
        ):
            for reader, passed in itertools.chain.from_iterable(self.replicas(place)):
                for array in passed.arrays:
                    yield passed.operation, reader.array(array).tobytes()

    def own_numbers(self) -> Iterator[str]:
        """The operations by which replicas have drawn numbers that belong to no row, and not all of them the same."""
        rows = next(self.rows(), ())
        for place in self._passed:
            for found in zip(*self.replicas(place), strict=False) if place.kind == DRAWN else ():
                drawn = [reader.array(passed.arrays[0]) for reader, passed in found]
                sizes = [*rows, *[1] * len(drawn)]
                of_rows = [any(length % (sizes[k] or 1) == 0 for length in each.shape) for k, each in enumerate(drawn)]
                if not all(of_rows) and len({each.tobytes() for each in drawn}) > 1:
                    yield found[0][1].operation

    def calls(self, run: int) -> int:
        """How often a call of `Strategy.run` was carried out, as in a loop; 1 where it was given nothing."""
        given = map(self.replicas, self.given_by(run))
        return max((len(passed) for found in given for passed in found), default=1)

    def given_by(self, run: int) -> list[StepPlace]:
        """The places at which a call of `Strategy.run` was given examples."""
        return [place for place in self._passed if place.kind == GIVEN and place.run == run]

    def of(self, place: StepPlace, replica: int) -> _Found:
        """What passed a place on one replica, in the order of execution."""
        return self._passed.get(place, {}).get(replica, [])


def _own(held: Sequence[tuple[EvidenceReader, HeldVariable]]) -> Iterator[str]:
    """The variables of which not every copy holds the same, over all tasks."""
    copies: dict[tuple[str, int], set[bytes]] = {}
    for reader, each in held:
        found = copies.setdefault((each.name, each.number), set())
        found.update(data_of(reader.array(copy)) for copy in each.copies)
    yield from (numbered(name, number) for (name, number), found in copies.items() if len(found) > 1)


def numbered(name: str, number: int) -> str:
    """What the variable is called that is so many-th of its name, from 0: the second one `NAME#2`."""
    return f"{name}#{number + 1}" if number else name


class RunEvidence:
    """Reads the steps of a run.

    Args:
        segments: of the run, in their order. A later one has its steps from where it begins on: what an earlier one did
            after that was undone.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = [(each, [EvidenceReader(folder) for folder in each.folders]) for each in segments]
        self._looked_at = 0
        self._shapes: dict[tuple[StepPlace, int, bool], list[list[tuple[int, ...]]]] = {}

    @property
    def is_there(self) -> bool:
        """Whether there is evidence of any step."""
        return any(reader.steps for reader in self.readers)

    @property
    def readers(self) -> list[EvidenceReader]:
        """The stores of all processes."""
        return [reader for _, readers in self._segments for reader in readers]

    @property
    def live(self) -> LiveProcesses | None:
        """What is known of the run while it goes on; None of one that has ended."""
        return self._segments[0][0].live if self._segments else None

    def is_settled(self, index: int) -> bool:
        """Whether a step can be had at once, since nothing will be added to it."""
        return self.live is None or self._is_closed(index) or self.live.is_over

    def _is_closed(self, index: int) -> bool:
        return all(reader.is_closed(index) for reader in self.readers)

    def uneven_axes(self, place: StepPlace, part: int) -> set[int]:
        """Axes along which replicas were given batches of other sizes in some step, as where each pads its own.

        That of rows is one where the data of a replica has ended, and another one is given a whole batch. Of a run that
        goes on it is known from the steps that are there by now.

        Args:
            place: of the batches.
            part: which of the arrays that passed it.
        """
        return set(_uneven(self._shapes_at(place, part)))

    def varying_axes(self, place: StepPlace, part: int, *, evaluated: bool) -> set[int]:
        """Axes along which batches had other sizes from call to call, as where the last one of an epoch is smaller.

        Args:
            place: as of `uneven_axes`.
            part: the same.
            evaluated: whether of calls between steps, which take no gradients.
        """
        shapes = set(itertools.chain.from_iterable(self._shapes_at(place, part, evaluated=evaluated)))
        if len({len(shape) for shape in shapes}) != 1:
            return set()
        return {axis for axis, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1}

    def _shapes_at(self, place: StepPlace, part: int, *, evaluated: bool = False) -> list[list[tuple[int, ...]]]:
        while self._looked_at < _STEPS_MAX and self.is_settled(self._looked_at + 1):
            step = self.step(self._looked_at + 1)
            if not step.is_there:
                break
            self._looked_at += 1
            for own, each in ((False, step), *((True, each) for each in step.evaluations())):
                for (where, number), shapes in each.given_shapes():
                    self._shapes.setdefault((where, number, own), []).append(shapes)
        return self._shapes.get((place, part, evaluated), [])

    def step(self, index: int) -> RunStep:
        """A step of the whole, from 1; of a run that goes on when nothing will be added to it.

        Raises:
            TimeoutError: that did not come.
            ValueError: a file is damaged.
        """
        number = max((k for k, (each, _) in enumerate(self._segments) if index > each.after), default=-1)
        if number < 0:
            return RunStep(index, number, [])
        if self.live is not None:
            self.live.wait(lambda: self._is_closed(index), f"step {index}")
        segment, readers = self._segments[number]
        own = index - segment.after + segment.skipped
        found = [(reader, step) for reader in readers if (step := reader.step(own)) is not None]
        return RunStep(index, number, [(reader, _renamed(step, segment.names)) for reader, step in found])


def _renamed(step: StepEvidence, names: Renaming) -> StepEvidence:
    def variables(held: Sequence[HeldVariable]) -> tuple[HeldVariable, ...]:
        places = ((each.name, each.number) for each in held)
        known = ((each, *others.get(place, place)) for each, place in zip(held, places, strict=True))
        return tuple(msgspec.structs.replace(each, name=name, number=number) for each, name, number in known)

    if not names:
        return step
    others = dict(names.names)
    reported = tuple(map(variables, step.reported))
    return msgspec.structs.replace(step, before=variables(step.before), reported=reported, own=variables(step.own))


def _uneven(steps: Sequence[Sequence[tuple[int, ...]]]) -> Iterator[int]:
    """The axes along which not all shapes of a step are as long; that of rows if one has none and another most."""
    rows = max((shape[0] for shapes in steps for shape in shapes if shape), default=0)
    for shapes in steps:
        if len({len(shape) for shape in shapes}) == 1:
            for axis, sizes in enumerate(zip(*shapes, strict=True)):
                if {0, rows} <= set(sizes) if axis == 0 else len(set(sizes)) > 1:
                    yield axis


def lead(folders: Sequence[str], *, again: bool = False) -> int:
    """How many calls that run replicas processes had before the first that was a step, such as to build.

    Of processes that were started `again` it is before the first that takes gradients, if any does: those before it
    set variables, or restore them. Where none was a step it is before the first after which something was reported.
    """
    reader = EvidenceReader(folders[0])
    steps = [step for index in range(1, reader.steps + 1) if (step := reader.step(index)) is not None]
    known = [step for step in steps if step.trained] or [step for step in steps if step.reported]
    known = (again and [step for step in known if not step.by_hand]) or known
    return known[0].index - 1 if known else 0
