"""The variables of a model that is loaded when a program is started again, under the names that they had before.

Keras calls `sequential/dense/kernel` of a model that was built `dense/kernel` once that is loaded, and the slots of its
optimizer likewise.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from harness.evidence.trace import ClientTrace, RunTrace, Seen, SeenVariable, Start, Step, Variable

_Named = TypeVar("_Named", Variable, SeenVariable)


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


def _by_form(ours: Sequence[tuple[str, Hashable]], theirs: Sequence[tuple[str, Hashable]]) -> dict[Hashable, list[str]]:
    known, found = {name for name, _ in theirs}, dict[Hashable, list[str]]()
    for name, form in ours:
        if name not in known:
            found.setdefault(form, []).append(name)
    return found


def names_before(run: RunTrace, earlier: RunTrace) -> dict[str, str]:
    """The names that variables had in an earlier part, by those that only a later one has."""
    return other_names(*(list(_made(trace.clients[0])) for trace in (run, earlier)))


def renamed(run: RunTrace, names: Mapping[str, str]) -> RunTrace:
    """A run in which variables that were seen have other names; what the program reports it has named itself."""
    return RunTrace(tuple(_renamed(client, names) for client in run.clients)) if names else run


def with_names(variables: Iterable[_Named], names: Mapping[str, str]) -> tuple[_Named, ...]:
    """Variables under other names, where these are known."""
    return tuple(msgspec.structs.replace(each, name=names.get(each.name, each.name)) for each in variables)


def _made(client: ClientTrace) -> Iterable[tuple[str, Hashable]]:
    """Names and forms of all that it began with, and then of those that were there later."""
    last = next((each.variables for each in reversed(client.seen) if each.variables), ())
    begun = () if client.start is None else client.start.variables
    forms = {each.name: (each.copies[0].dtype, each.copies[0].shape) for each in (*begun, *last)}
    return forms.items()


def _renamed(client: ClientTrace, names: Mapping[str, str]) -> ClientTrace:
    def seen(each: Seen) -> Seen:
        return msgspec.structs.replace(each, variables=with_names(each.variables, names)) if each.variables else each

    def begun(each: Start) -> Start:
        return msgspec.structs.replace(each, variables=with_names(each.variables, names))

    def step(each: Step) -> Step:
        return each if each.seen is None else msgspec.structs.replace(each, seen=seen(each.seen))

    return msgspec.structs.replace(
        client,
        steps=tuple(map(step, client.steps)),
        seen=tuple(map(seen, client.seen)),
        start=None if client.start is None else begun(client.start),
        starts=tuple(map(begun, client.starts)),
    )
