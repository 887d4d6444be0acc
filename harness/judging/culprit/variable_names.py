"""Variables of a run under the names that the reference has for them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from harness.evidence.watched_step import WatchedStep

__all__ = ["alike_named"]

_NUMBER = re.compile(r"#\d+$")


class _Place(NamedTuple):
    """The name that several variables share, and the line that makes one."""

    name: str
    file: str
    line: int


def alike_named(run: WatchedStep, reference: WatchedStep) -> WatchedStep:
    """The same, with variables that share a name paired by the line that makes them, and by their order there.

    Their numbers go by all that have the name: one more in the run, such as one for each device, moves those of all
    others. Where a line makes more of them than in the reference nobody knows which is which, and they have no partner.
    """
    numbered = {_NUMBER.sub("", seen.name) for each in (run, reference) for seen in each.variables if "#" in seen.name}
    ours, theirs = list(_places(run, numbered)), list(_places(reference, numbered))
    counts, expected = (Counter(place for _, place in each) for each in (ours, theirs))
    names = dict[str, str]()
    for place, count in counts.items():
        here, there = ([name for name, other in each if other == place] for each in (ours, theirs))
        unknown = [f"{name} of {run.task}" for name in here]
        names |= dict(zip(here, there if count == expected[place] else unknown, strict=True))
    if all(old == new for old, new in names.items()):
        return run
    return msgspec.structs.replace(
        run,
        ops=tuple(
            msgspec.structs.replace(op, variable=names[op.variable]) if op.variable in names else op for op in run.ops
        ),
        variables=tuple(msgspec.structs.replace(each, name=names.get(each.name, each.name)) for each in run.variables),
    )


def _places(watched: WatchedStep, numbered: set[str]) -> Iterator[tuple[str, _Place]]:
    """Of each variable that shares its name where it was made, in the order in which they were."""
    for seen in watched.variables:
        name = _NUMBER.sub("", seen.name)
        if name in numbered and seen.made is not None:
            frame = watched.frames[seen.made]
            yield seen.name, _Place(name, frame.file, frame.line)
