"""Puts steps of a training together as those of one short run, which can be judged as any run is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from harness.errors import Abstained
from harness.evidence.arrays import Array
from harness.evidence.counters import Counters
from harness.evidence.deposit import Training
from harness.evidence.loaded_names import with_names
from harness.evidence.own_state import WAYS, OwnState, Way, joined
from harness.evidence.parts import TRACES
from harness.evidence.steps import (
    EvidenceReader,
    EvidenceWriter,
    HeldVariable,
    PlaceValue,
    StepEvidence,
    evidence_folder,
    renumbered,
)
from harness.evidence.trace import Seen, SeenVariable, Start
from harness.evidence.writing import TraceWriter
from harness.live.arrangement import Arrangement


def compose(
    training: Training,
    chosen: Arrangement,
    directory: Path,
    *,
    only: int | None = None,
    own: bool = False,
    turned: bool = False,
    way: Way | None = None,
    names: Mapping[str, str] | None = None,
) -> None:
    """Leave a run whose steps, numbered from 1, are these.

    Args:
        training: whose steps they are.
        chosen: which, and which of them only fill a place.
        directory: of the run.
        only: the number of the replica, over all tasks, that then is the only one of which the steps are.
        own: adds to the variables what each replica has for itself, or what that is together if `way` tells.
        turned: whether each replica has what another one had.
        way: what replicas have of their own is such a part of what one device has; if nobody knows, as the program
            says.
        names: what the judge's script calls variables, where it is otherwise.

    Raises:
        Abstained: one of them is not there any more.
        OSError: it is removed in this moment.
        ValueError: it is damaged.
    """
    traces = directory / TRACES
    traces.mkdir()
    readers = training.readers()
    local, replicas = readers[0][0].header.local_replicas, sum(job.header.local_replicas for job, _ in readers)
    by = 0 if not turned else 1 if local == replicas else local
    for place, (job, reader) in enumerate(readers):
        # Files are read in the order of their names, which is that of replicas.
        trace = traces / f"{(place + turned) % len(readers):04}-{job.header.task.replace(':', '-')}.trace"
        writer, store = TraceWriter(trace), EvidenceWriter(evidence_folder(trace))
        writer.write(msgspec.structs.replace(job.header, are_single=True))
        for index, number in enumerate(chosen.steps, 1):
            step = _there(reader, number)
            seen = msgspec.structs.replace(_named(_seen(step), names), index=index)
            held = with_names(step.before, names or {})
            step = msgspec.structs.replace(step, before=held, fills=index not in chosen.places.values())
            writer.write(Start(seen.at, tuple(_begun(reader, step, seen)), index, seen.after))
            if own:
                states = [each.turned(by) for each in own_state(training, number, names)]
                more = [variable for each in states for variable in (each.each if way is None else each.all(way))]
                seen = msgspec.structs.replace(seen, variables=(*(seen.variables or ()), *more))
            if turned:
                step = _turned(step, by, replicas, copies=by if local == replicas else 0)
            step = msgspec.structs.replace(step, before=tuple(_together(step.before, way)))
            writer.write(seen)
            store.begin(index)
            store.publish(renumbered(reader, step if only is None else _only_of(step, only), index, store.put))
        writer.write(Counters())
        writer.close()


def own_state(training: Training, number: int, names: Mapping[str, str] | None = None) -> tuple[OwnState, ...]:
    """What replicas had each for itself after a step; `names` and what it raises are as of `compose`."""
    return joined([seen_of(reader, number, names).own for _, reader in training.readers()])


def ways(training: Training, numbers: Iterable[int]) -> tuple[Way | None, ...]:
    """What may be told of `compose` for steps, the likeliest first: a program may add up what it says is a mean.

    Raises:
        OSError: one of them is removed in this moment.
        ValueError: it is damaged.
    """
    readers = training.readers()
    steps = (reader.step(number) for _, reader in readers[:1] for number in numbers)
    kinds = {each.how for step in steps if step is not None for each in step.before if each.is_local}
    if not kinds or sum(job.header.local_replicas for job, _ in readers) == 1:
        return (None,)
    several: tuple[Way | None, ...] = (None,) if kinds >= {"sum", "mean"} else ()
    return (*several, *sorted(WAYS, key=lambda way: {way} != kinds))


def makes_variables(step: StepEvidence) -> bool:
    """Whether a step has left variables that it did not begin with, such as the slots of an optimizer.

    Raises:
        ValueError: it is damaged.
    """
    left = Counter(each.name for each in _seen(step).variables or ())
    return bool(left - Counter(each.name for each in step.before))


def may_be_restored(training: Training, number: int) -> bool:
    """Whether a step has made variables of which a checkpoint may have said what they begin with: nobody has noted it.

    Raises:
        OSError: it is removed in this moment.
        ValueError: it is damaged.
    """
    reader = training.readers()[0][1]
    if (step := reader.step(number)) is None or not makes_variables(step):
        return False
    begun = reader.step(1) or step
    counters = [copy for each in begun.before for copy in each.copies if not copy.shape and "int" in copy.dtype]
    return training.number > 0 or any(reader.array(each) for each in counters)


def begins_with_all(reader: EvidenceReader, start: Start | None, names: Mapping[str, str]) -> bool:
    """Whether the judge's script begins with all variables that the training began with, which may have restored some.

    Args:
        reader: of the training's first process.
        start: what the script begins with.
        names: as of `compose`.

    Raises:
        ValueError: the first step is damaged.
    """
    step, known = reader.step(1), Counter(each.name for each in start.variables) if start is not None else Counter()
    return step is None or not Counter(names.get(each.name, each.name) for each in step.before) - known


def _begun(reader: EvidenceReader, step: StepEvidence, seen: Seen) -> Iterator[SeenVariable]:
    """What it began with of the variables that are compared, of which names alone tell which is which."""
    left, held = Counter(each.name for each in seen.variables or ()), Counter(each.name for each in step.before)
    for each in step.before:
        if each.how == "copies" and left[each.name] == held[each.name]:
            yield SeenVariable(each.name, each.how, (Array.of(reader.array(each.copies[0])),))


def seen_of(reader: EvidenceReader, number: int, names: Mapping[str, str] | None = None) -> Seen:
    """What was seen of a step in its process; `names` and what it raises are as of `compose`."""
    return _named(_seen(_there(reader, number)), names)


def _named(seen: Seen, names: Mapping[str, str] | None) -> Seen:
    if not names:
        return seen
    variables = None if seen.variables is None else with_names(seen.variables, names)
    own, gradients = with_names(seen.own, names), with_names(seen.gradients, names)
    return msgspec.structs.replace(seen, variables=variables, own=own, gradients=gradients)


def _there(reader: EvidenceReader, number: int) -> StepEvidence:
    if (step := reader.step(number)) is None:
        raise Abstained(f"step {number} was removed before it was judged")
    return step


def _seen(step: StepEvidence) -> Seen:
    try:
        return msgspec.msgpack.decode(step.seen, type=Seen)
    except msgspec.MsgspecError as error:
        raise ValueError(f"step {step.index} is damaged: {error}") from error


def _only_of(step: StepEvidence, replica: int) -> StepEvidence:
    """A step as one replica had it, as if there were no other."""

    def own(passed: Sequence[PlaceValue]) -> tuple[PlaceValue, ...]:
        return tuple(msgspec.structs.replace(each, replica=0) for each in passed if each.replica == replica)

    return msgspec.structs.replace(step, passed=own(step.passed), evaluations=())


def _together(held: Sequence[HeldVariable], way: Way | None) -> Iterator[HeldVariable]:
    """What each replica has of its own as a part of a whole."""
    for each in held:
        if way is None or not each.is_local:
            yield each
        elif way == "first":
            yield msgspec.structs.replace(each, how="copies", copies=each.copies[:1])
        else:
            yield msgspec.structs.replace(each, how=way)


def _turned(step: StepEvidence, by: int, replicas: int, *, copies: int) -> StepEvidence:
    """A step as it would be if each replica were another one, so many places on; and its copies in the same task."""
    passed = (msgspec.structs.replace(each, replica=(each.replica + by) % replicas) for each in step.passed)
    before = (
        msgspec.structs.replace(each, copies=(*each.copies[-copies:], *each.copies[:-copies])) for each in step.before
    )
    return msgspec.structs.replace(step, passed=tuple(passed), before=tuple(before), evaluations=())
