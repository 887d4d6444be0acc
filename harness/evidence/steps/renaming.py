"""The variables of one process under the names that they have in another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import msgspec


class _Named(Protocol):
    @property
    def name(self) -> str:
        """What several may be called."""


_Variable = TypeVar("_Variable", bound=_Named)


class Renaming(msgspec.Struct, frozen=True):
    """Which variable is which. Those that are not in it have their own names.

    Attributes:
        names: for a name, and the number of a variable of that name, from 0, the other name and number.
    """

    names: tuple[tuple[tuple[str, int], tuple[str, int]], ...] = ()

    def __bool__(self) -> bool:
        """Whether any variable has another name."""
        return bool(self.names)

    def listed(self, variables: Sequence[_Variable]) -> tuple[_Variable, ...]:
        """Variables in the order in which they were made, under their other names."""
        others, places = dict(self.names), places_of(each.name for each in variables)
        return tuple(
            msgspec.structs.replace(each, name=others.get(place, place)[0])  # type: ignore[type-var]
            for each, place in zip(variables, places, strict=True)
        )


SAME = Renaming()
"""All variables have their own names."""


def places_of(names: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Each of these with the number that it is of its name, from 0."""
    seen = Counter[str]()
    for name in names:
        yield name, seen[name]
        seen[name] += 1
