"""Puts what the harness saw by itself into the steps of traces, as if the program had reported it, unless it did.

What is put there must be certain whatever a program means by its numbers, because laws judge it: variables, the loss
that `fit` logs, and examples. Losses and gradients of single replicas are not: a program may rightly add them up or
average them. They stay in `Step.seen`, for rules (`told`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from harness.errors import Abstained
from harness.evidence.metric_means import with_metric_means
from harness.evidence.observed import unique_names
from harness.evidence.trace import Array, ClientTrace, DrawSeen, RunTrace, Seen, SeenVariable, Start, Step
from harness.evidence.variable_pairs import Place, common_places, placed

OWN_DRAWS = ("own", "order", "state", "mixed_rows", "statistics", "equal_by_process")
"""The kinds of a `DrawSeen` that are no mistake by themselves: what each replica has for itself, or by one seed."""

_FILLED = ("loss", "examples")
_SHOWN_MAX = 4


def rows_of(seen: Seen) -> list[int]:
    """The fingerprints of all examples of a step, replica by replica; empty if none were seen."""
    return [number for rows in seen.examples or () for number in rows]


def for_coordinator(run: RunTrace) -> bool:
    """Whether workers have made its steps for a coordinator, as far as these were seen."""
    return any(seen.worker is not None for client in run.clients for seen in client.seen)


@dataclass(frozen=True)
class CompletedTraces:
    """The traces in the order given, and sentences about what could not be put into them."""

    traces: tuple[RunTrace, ...]
    notes: tuple[str, ...] = ()


def completed(traces: Sequence[RunTrace], *, with_examples: int = 0) -> CompletedTraces:
    """These traces of one program, each step with what was seen of it and was reported in none of them.

    A program that never called `record.step` has the steps that were seen. Something is put into a step only if it was
    seen at this step in all traces and clients, a variable only if it has its pair everywhere.

    Args:
        traces: the reference's first.
        with_examples: of how many of them, from the first on, examples are to be compared: noise changes data.
    """
    clients = [client for trace in traces for client in trace.clients]
    if not any(client.seen for client in clients):
        return CompletedTraces(tuple(traces))
    recorded = any(step.seen is None for client in clients for step in client.steps)
    if len({client.counters.per_epoch for client in clients}) > 1:  # steps of the one are epochs of the other
        return CompletedTraces(tuple(map(with_seen, traces)), overwritten(traces))
    whole = [RunTrace(tuple(_with_seen(client, recorded) for client in trace.clients)) for trace in traces]
    free = [what for what in _FILLED if not _reported(whole, what)]
    steps = _Steps(whole)
    filled = [RunTrace(tuple(_filled(client, steps, free) for client in trace.clients)) for trace in whole]
    if not _reported(whole, "metrics"):
        filled = with_metric_means(filled)
    raised = dict.fromkeys(sentence for client in clients for sentence in client.counters.raised)
    told = () if recorded else _notes(clients)
    reported = {each.name for client in clients for step in client.steps for each in step.variables or ()}
    notes = (
        *raised,
        *overwritten(traces),
        *told,
        *_not_compared("not everybody has as many", steps.left_out - reported),
    )
    if "examples" in free and with_examples:
        compared, why = _with_examples(filled[:with_examples])
        filled[:with_examples] = compared
        notes += why
    return CompletedTraces(tuple(filled), notes)


def overwritten(traces: Sequence[RunTrace]) -> tuple[str, ...]:
    """What is to be said of data that was written over in runs and not in the first one, the reference.

    A program that changes its own arrays does so in each run.
    """
    truth, *others = (
        {sentence: None for client in trace.clients for sentence in client.counters.overwritten} for trace in traces
    )
    return () if truth else tuple(dict.fromkeys(sentence for each in others for sentence in each))


def wrong_draws(seen: Seen | None) -> list[DrawSeen]:
    """What is wrong with the draws of a step, and no condition of a verdict; see `harness.judging.conditions`."""
    draws = () if seen is None else seen.draws
    return [each for each in draws if each.kind not in OWN_DRAWS and not (each.kind == "equal" and each.by_keras)]


def lines_of_draws(reference: RunTrace, kind: str) -> list[str]:
    """The lines of a program at which something was seen of draws, by its `DrawSeen.kind`."""
    draws = (draw for seen in reference.clients[0].seen for draw in seen.draws)
    return list(dict.fromkeys(draw.where for draw in draws if draw.kind == kind))


def with_seen(trace: RunTrace) -> RunTrace:
    """The run, each step that it recorded with what the harness saw of it."""
    return RunTrace(tuple(_with_seen(client, recorded=True) for client in trace.clients))


def seen_by_step(trace: RunTrace) -> dict[int, Seen | None]:
    """What the first client saw of each step, of those that the program recorded if it did."""
    client = with_seen(trace).clients[0]
    return {step.index: step.seen for step in client.steps} or {each.index: each for each in client.seen}


def with_steps(client: ClientTrace) -> ClientTrace:
    """The client with the steps that were seen, if it is one of which nothing else is known; see `Header.at_once`."""
    return _with_seen(client, recorded=False) if client.header.at_once else client


def without_lead(client: ClientTrace) -> ClientTrace:
    """A process that was started again, from its first step that takes gradients.

    Those before it set what the program trains, or restore it; where it takes none, all are steps.
    """
    if not (lead := client.lead):
        return client
    begun = client.trained_from

    def moved(start: Start) -> Start:
        return msgspec.structs.replace(start, index=max(1, start.index - lead), lead=False)

    return msgspec.structs.replace(
        client,
        seen=tuple(msgspec.structs.replace(seen, index=seen.index - lead) for seen in client.seen if seen.index > lead),
        start=None if begun is None else moved(begun),
        starts=tuple(moved(each) for each in client.starts if each.index > lead + 1),
        evaluated=tuple(
            msgspec.structs.replace(each, after=each.after - lead) for each in client.evaluated if each.after >= lead
        ),
    )


def completed_parts(reference: Sequence[RunTrace], parts: Sequence[RunTrace]) -> CompletedTraces:
    """A script's reference and all parts of its run, each step with what was seen of it.

    A part counts its steps from 1, and nobody knows yet which of the reference's they are. So a variable is compared
    only if it was there at every step of everybody, always with one dtype and shape.

    Args:
        reference: the plain run first.
        parts: of the run.

    Returns:
        All of them, in this order.

    Raises:
        Abstained: none of those that steps change was there always.
    """
    whole = [RunTrace(tuple(map(with_steps, trace.clients))) for trace in (*reference, *parts)]
    clients = [client for trace in whole for client in trace.clients]
    seen = [step.seen for client in clients for step in client.steps if step.seen is not None]
    every = [each.variables for each in seen if each.variables]
    places = common_places(every) if every else ()
    left_out = _left_out(every, places)
    if left_out:
        _check_trained(every, places)
    traces = [RunTrace(tuple(_with_variables(client, places) for client in trace.clients)) for trace in whole]
    notes = (*_notes(clients), *_not_compared("not every step has them", left_out))
    compared, why = _with_examples([traces[0], *traces[len(reference) :]])
    return CompletedTraces((compared[0], *traces[1 : len(reference)], *compared[1:]), (*notes, *why))


def _left_out(every: Iterable[Sequence[SeenVariable]], places: Sequence[Place]) -> set[str]:
    """The names of those that have no pair."""
    return {place[0][0] for each in every for place, _ in placed(each) if place not in places}


def _check_trained(every: Sequence[Sequence[SeenVariable]], places: Iterable[Place]) -> None:
    """Fail where all that steps change is left out: then nothing that they compute would be compared."""
    compared, first, changing = set(places), dict[Place, Array](), set[str]()
    for place, variable in (pair for each in every for pair in placed(each)):
        value = variable.copies[0]
        if value.is_floating and first.setdefault(place, value).data != value.data:
            if place in compared:
                return
            changing.add(repr(place[0][0]))
    if changing:
        shown = ", ".join(sorted(changing)[:_SHOWN_MAX])
        raise Abstained(
            f"no variable that steps change has one name and shape in all parts of the run: {shown}. A model that is "
            "loaded may name its variables otherwise. Build it as at the first start and load its weights, or verify a "
            "function that reports them with `record`"
        )


def _not_compared(why: str, names: Iterable[str]) -> tuple[str, ...]:
    shown = ", ".join(sorted(names))
    return (f"not compared, since {why}: {shown}",) if shown else ()


def _with_variables(client: ClientTrace, places: Sequence[Place]) -> ClientTrace:
    steps = (_with_placed(step, places) for step in client.steps)
    return msgspec.structs.replace(client, steps=tuple(steps))


def _with_placed(step: Step, places: Sequence[Place]) -> Step:
    """The step with the variables at these places that were seen, and not reported, besides those that were."""
    seen = dict(placed((step.seen and step.seen.variables) or ()))
    kept = [seen[place] for place in places if place in seen]
    if not kept:
        return step
    reported = step.variables or ()
    names = unique_names([*(each.name for each in reported), *(each.name for each in kept)])[len(reported) :]
    others = tuple(one.as_reported(name) for name, one in zip(names, kept, strict=True))
    return msgspec.structs.replace(step, variables=(*reported, *others))


def _notes(clients: Sequence[ClientTrace]) -> tuple[str, ...]:
    """What a verdict says of a program that has reported no step."""
    unseen = dict.fromkeys(sentence for client in clients for sentence in client.counters.unseen)
    said = "the program never calls record.step: its steps, and what is judged of them, are what Lockstep saw by itself"
    return (said, *(f"not seen: {sentence}" for sentence in unseen))


def _with_seen(client: ClientTrace, recorded: bool) -> ClientTrace:
    """The client with `Step.seen` in each step; with the steps that were seen, if the program recorded none."""
    if not recorded:
        steps = tuple(Step(index=seen.index, at=seen.at, seen=seen) for seen in client.seen)
        return msgspec.structs.replace(client, steps=steps)
    by_step: dict[int, list[Seen]] = {}
    for seen in client.seen:
        by_step.setdefault(seen.after + 1, []).append(seen)
    steps = tuple(
        msgspec.structs.replace(step, seen=_together(by_step.get(number, [])))
        for number, step in enumerate(client.steps, start=1)
    )
    return msgspec.structs.replace(client, steps=steps)


def _together(several: Sequence[Seen]) -> Seen | None:
    """What was seen between two calls of `record.step`, as one step: variables as they were last, all examples."""
    if len(several) < 2:
        return several[0] if several else None
    # What replicas are given to set variables, if anything, a part that is started again may be given once more.
    told = [seen for seen in several if not seen.by_hand or several[-1].by_hand]
    rows = [seen.examples for seen in told]
    joined = None
    if len({len(each) for each in rows if each is not None}) == 1 and None not in rows:
        joined = tuple(tuple(id_ for part in parts for id_ in part) for parts in zip(*rows, strict=True))
    columns = told[0].columns if len({seen.columns for seen in told}) == 1 else ()
    last = several[-1]
    return msgspec.structs.replace(
        last,
        examples=joined,
        columns=columns,
        losses=(),
        gradients=(),
        reduced=(),
        means=(),
        apart=next((seen.apart for seen in several if seen.apart is not None), None),
        draws=tuple(draw for seen in several for draw in seen.draws),
    )


def _reported(traces: Iterable[RunTrace], what: str) -> bool:
    steps = (step for trace in traces for client in trace.clients for step in client.steps)
    return any(getattr(step, what) is not None for step in steps)


class _Steps:
    """What was seen at each step in all traces and clients alike."""

    def __init__(self, traces: Sequence[RunTrace]) -> None:
        seen = [{step.index: step.seen for step in client.steps} for trace in traces for client in trace.clients]
        common = set.intersection(*(set(steps) for steps in seen)) if seen else set()
        everywhere = {index: [steps[index] for steps in seen] for index in common}
        self.loss = {index for index, all_ in everywhere.items() if all(one is not None and one.loss for one in all_)}
        found = {
            index: [() if one is None else one.variables or () for one in all_] for index, all_ in everywhere.items()
        }
        self.variables = {index: common_places(every) for index, every in found.items()}
        """The places of the variables that everybody saw."""
        shown = {index: every for index, every in found.items() if all(every)}
        self.left_out = {name for index, every in shown.items() for name in _left_out(every, self.variables[index])}


def _filled(client: ClientTrace, steps: _Steps, free: Sequence[str]) -> ClientTrace:
    return msgspec.structs.replace(client, steps=tuple(_filled_step(step, steps, free) for step in client.steps))


def _filled_step(step: Step, steps: _Steps, free: Sequence[str]) -> Step:
    seen = step.seen
    if seen is None:
        return step
    if "loss" in free and step.index in steps.loss:
        step = msgspec.structs.replace(step, loss=seen.loss)
    if places := steps.variables.get(step.index):
        step = _with_placed(step, places)
    return step


def _with_examples(traces: Sequence[RunTrace]) -> tuple[list[RunTrace], tuple[str, ...]]:
    """These with the examples that were seen, each by its place in the first trace; or as they are, and why."""
    every = [(client, step) for trace in traces for client in trace.clients for step in client.steps]
    # A step by hand may set variables, and be given no examples by anybody.
    given = {step.index for _, step in every if (seen := step.seen) is None or seen.examples or not seen.by_hand}
    wanted = [(client, step.seen) for client, step in every if step.index in given]
    known = [seen for client, seen in wanted if seen is not None and _of_all_replicas(client, seen)]
    if not known:
        return list(traces), ()
    if len(known) < len(wanted):
        return list(traces), ("examples were not seen of each replica at each step, so that they are not compared",)
    columns: dict[int, set[tuple[int, ...]]] = {}
    for _, step in every:
        if step.index in given and step.seen is not None:
            columns.setdefault(step.index, set()).add(step.seen.columns)
    if any(len(found) > 1 for found in columns.values()):
        return list(traces), ("replicas are called with tensors of other lengths, so that examples are not compared",)
    whole = _given_whole(traces)
    places: dict[int, int] = {}
    for id_ in _rows(traces[0]):
        if id_ not in whole:
            places.setdefault(id_, len(places))
    if any(id_ not in places and id_ not in whole for trace in traces[1:] for id_ in _rows(trace)):
        text = "the run has examples that the reference never has, to the bit, so that examples are not compared"
        return list(traces), (text,)
    text = "rows that every worker is given whole, the same at every step, are not compared as examples"
    notes = (f"{text}: {len(whole)}",) if whole else ()
    return [RunTrace(tuple(_placed(client, places) for client in trace.clients)) for trace in traces], notes


def _given_whole(traces: Sequence[RunTrace]) -> frozenset[int]:
    """Rows that each of several workers has at every step as often as the reference, next to others that change.

    An argument of a `tf.function` such as anchors tells by nothing else that it is no share of a batch. A data set of
    which every worker reads all changes from step to step, or there is nothing else in a step: that is left.
    """
    if any(len(trace.clients) < 2 for trace in traces[1:]):
        return frozenset()
    truth, *others = (
        [Counter(_rows_of(step)) for client in trace.clients for step in client.steps] for trace in traces
    )
    if len(truth) < 2:
        return frozenset()
    steps = [*truth, *(step for run in others for step in run)]
    always = frozenset(id_ for id_, count in truth[0].items() if all(step[id_] == count for step in steps))
    return always if any(step.keys() - always for step in truth) else frozenset()


def _of_all_replicas(client: ClientTrace, seen: Seen) -> bool:
    return seen.examples is not None and len(seen.examples) == max(1, client.header.local_replicas)


def _rows(trace: RunTrace) -> Iterator[int]:
    for client in trace.clients:
        for step in client.steps:
            yield from _rows_of(step)


def _rows_of(step: Step) -> list[int]:
    return [] if step.seen is None else rows_of(step.seen)


def _placed(client: ClientTrace, places: dict[int, int]) -> ClientTrace:
    def placed(step: Step) -> Step:
        if step.seen is None or step.seen.examples is None:
            return step
        kept = tuple(tuple(places[id_] for id_ in part if id_ in places) for part in step.seen.examples)
        return msgspec.structs.replace(step, examples=kept)

    return msgspec.structs.replace(client, steps=tuple(map(placed, client.steps)))
