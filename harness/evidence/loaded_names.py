"""The variables of a model that is loaded when a program is started again, under the names that they had before.

Keras calls `sequential/dense/kernel` of a model that was built `dense/kernel` once that is loaded, and the slots of its
optimizer likewise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from harness.evidence.steps import HeldVariable, Renaming, places_of
from harness.evidence.trace import ClientTrace, RunTrace, Seen, SeenVariable, Start, Step, Value, Variable

_Named = TypeVar("_Named", Variable, SeenVariable, HeldVariable, Value)


def other_names(ours: Sequence[tuple[str, Hashable]], theirs: Sequence[tuple[str, Hashable]]) -> dict[str, str]:
    """The others' names, by those that they have not.

    Only names that the other one has not are paired, in their order, where these are as many of a form. So a pair that
    is none is found by its values.

    Args:
        ours: names and forms, such as dtype and shape, in the order in which they were made.
        theirs: the same of the others.
    """
    mine, others = (_by_form(every, other) for every, other in ((ours, theirs), (theirs, ours)))
    return {
        name: other
        for form, names in mine.items()
        if len(names) == len(set(names)) == len(set(others.get(form, ()))) == len(others.get(form, ()))
        for name, other in zip(names, others[form], strict=True)
    }


def names_of_built(loaded: Sequence[tuple[str, Hashable]], built: Sequence[tuple[str, Hashable]]) -> dict[str, str]:
    """As `other_names`, of those that end alike: no other pair is certain before its values are compared."""
    return {name: other for name, other in other_names(loaded, built).items() if _end_alike(name, other)}


def _end_alike(one: str, other: str) -> bool:
    """Whether one name is the other after the name of a model, or of a model within that of an optimizer."""
    (first, _, rest), (owner, _, last) = one.partition("/"), other.partition("/")
    pairs = [(one, other), (rest, last)] if first == owner else [(one, other)]
    flat = (sorted((f"_{each.replace('/', '_')}" for each in pair), key=len) for pair in pairs)
    return any(longer.endswith(shorter) for shorter, longer in flat)


def _by_form(ours: Sequence[tuple[str, Hashable]], theirs: Sequence[tuple[str, Hashable]]) -> dict[Hashable, list[str]]:
    known, found = {name for name, _ in theirs}, dict[Hashable, list[str]]()
    for name, form in ours:
        if name not in known:
            found.setdefault(form, []).append(name)
    return found


def names_before(run: RunTrace, earlier: RunTrace) -> Renaming:
    """What variables were called in an earlier part.

    A model that is built and not trained, since one that is loaded takes its place, may live on under the names of the
    one that was trained before.
    """
    ours, theirs = (list(_made(trace.clients[0])) for trace in (run, earlier))
    if (trained := _by_training(ours, theirs)) is not None:
        return trained
    names = other_names(*([(each.name, each.form) for each in every] for every in (ours, theirs)))
    pairs = ((each, names[each.name]) for each in ours if each.name in names)
    return Renaming(tuple((each.place, (other, each.number)) for each, other in pairs))


def renamed(run: RunTrace, names: Renaming) -> RunTrace:
    """A run in which variables that were seen have other names; what the program reports it has named itself."""
    return RunTrace(tuple(_renamed(client, names) for client in run.clients)) if names else run


def with_names(variables: Iterable[_Named], names: Mapping[str, str]) -> tuple[_Named, ...]:
    """Variables under other names, where these are known."""
    if not names:
        return tuple(variables)
    return tuple(msgspec.structs.replace(each, name=names.get(each.name, each.name)) for each in variables)


class _Made(NamedTuple):
    """A variable that a part has, by its name and its number among those of this name; and whether steps change it."""

    name: str
    number: int
    form: Hashable
    changes: bool

    @property
    def place(self) -> tuple[str, int]:
        return self.name, self.number


def _made(client: ClientTrace) -> Iterator[_Made]:
    """All that it began with, and then what was there later."""
    begun = {} if client.start is None else dict(_numbered(client.start.variables))
    later = [dict(_numbered(each.variables)) for each in client.seen if each.variables]
    for (name, number), first in {**begun, **(later[-1] if later else {})}.items():
        value = begun.get((name, number), first).copies[0]
        others = (each[name, number].copies[0] for each in later if (name, number) in each)
        changes = (name, number) not in begun or any(other != value for other in others)
        yield _Made(name, number, (value.dtype, value.shape), changes=changes)


def _numbered(variables: Sequence[SeenVariable]) -> Iterator[tuple[tuple[str, int], SeenVariable]]:
    return zip(places_of(each.name for each in variables), variables, strict=True)


def _by_training(ours: Sequence[_Made], theirs: Sequence[_Made]) -> Renaming | None:
    """What is trained in one part under the names of what was trained in the other, in the order of their making.

    None where nothing has stopped to be trained, or not as many of each form are trained in both.
    """
    mine, others = ([each for each in every if each.changes] for every in (ours, theirs))
    idle = {each.place for each in ours if not each.changes} & {each.place for each in others}
    if not idle or Counter(each.form for each in mine) != Counter(each.form for each in others):
        return None
    rest: dict[Hashable, list[_Made]] = {}
    for each in others:
        rest.setdefault(each.form, []).append(each)
    trained = [(each.place, rest[each.form].pop(0).place) for each in mine]
    return Renaming((*trained, *((each, (f"{each[0]} of a model that is not trained", each[1])) for each in idle)))


def _renamed(client: ClientTrace, names: Renaming) -> ClientTrace:
    def seen(each: Seen) -> Seen:
        return msgspec.structs.replace(each, variables=names.listed(each.variables)) if each.variables else each

    def begun(each: Start) -> Start:
        return msgspec.structs.replace(each, variables=names.listed(each.variables))

    def step(each: Step) -> Step:
        return each if each.seen is None else msgspec.structs.replace(each, seen=seen(each.seen))

    return msgspec.structs.replace(
        client,
        steps=tuple(map(step, client.steps)),
        seen=tuple(map(seen, client.seen)),
        start=None if client.start is None else begun(client.start),
        starts=tuple(map(begun, client.starts)),
    )
