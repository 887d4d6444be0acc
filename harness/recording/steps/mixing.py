"""The examples that a run was given next to those that one device is given: how many, which, and whether their parts
belong together. A feature that comes with another example's label is no example.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.trace import GivenSeen

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Examples"]

_Rows = list[list[int]]
_SIGMAS = 4


class Examples:
    """Compares them step by step, and over all steps where their order is another one.

    Attributes:
        differing: how many steps were given other examples than one device.
    """

    def __init__(self) -> None:
        self.differing = 0
        self._given: list[_Rows] = []
        self._own: list[_Rows] = []
        self._shaped_alike = True

    def add(self, given: Sequence[np.ndarray[Any, Any]], own: Sequence[np.ndarray[Any, Any]]) -> GivenSeen | None:
        """What is to be said of the examples of one call.

        Args:
            given: each part of the examples of all replicas, such as features and labels; rows are examples.
            own: the same of what one device is given by the same program.

        Returns:
            None where the parts have not the same number of rows, so that nobody knows what an example is.
        """
        ours, theirs = _rows(given), _rows(own)
        if ours is None or theirs is None:
            return None
        self._given.append(ours)
        self._own.append(theirs)
        self._shaped_alike &= all(one.shape[1:] == other.shape[1:] for one, other in zip(given, own, strict=True))
        others, mixed = _compared([ours], [theirs])
        self.differing += bool(others or len(ours[0]) != len(theirs[0]))
        return GivenSeen(len(ours[0]), len(theirs[0]), others, mixed)

    def over_all(self) -> GivenSeen | None:
        """The same of all steps together; None where parts are not as many in each."""
        if len({len(each) for each in (*self._given, *self._own)}) != 1:
            return None
        others, mixed = _compared(self._given, self._own)
        rows, own = (sum(len(each[0]) for each in every) for every in (self._given, self._own))
        changed = _changed(self._given, self._own) if others and self._shaped_alike else 0  # else rows may be padded
        return GivenSeen(rows, own, others, mixed, changed, _again(self._given, self._own))


def _compared(given: Sequence[_Rows], own: Sequence[_Rows]) -> tuple[int, int | None]:
    """How many examples one device has not, and how many of these are mixed, where only that can be why."""
    whole, expected = (Counter(row for each in every for row in zip(*each, strict=True)) for every in (given, own))
    others = sum((whole - expected).values())
    parts = len(given[0])
    alike = all(
        Counter(row for each in given for row in each[part]) == Counter(row for each in own for row in each[part])
        for part in range(parts)
    )
    return others, others if alike and parts > 1 else None


def _changed(given: Sequence[_Rows], own: Sequence[_Rows]) -> int:
    """How many examples are one device's but for a part, and the same ones each time that they come.

    What is drawn anew is another example each time. A part tells which example it is of where no two have the same.
    """
    known = {row for each in own for row in zip(*each, strict=True)}
    came = Counter(row for each in given for row in set(zip(*each, strict=True)))
    found = set()
    for part in range(len(own[0])):
        values = {row[part] for row in known}
        if len(values) == len(known):
            found |= {row for row, times in came.items() if times > 1 and row not in known and row[part] in values}
    return len(found)


def _again(given: Sequence[_Rows], own: Sequence[_Rows]) -> tuple[int, int, int]:
    """Where most more examples came again than on one device: of how many, how often they did, and how often there.

    Shards that are as long as each other to half a step let that many come again when the data begin anew, and data
    that have examples twice let some come again by chance: what is no more is not told, and (0, 0, 0) is given.
    """
    longest = max(len(each[0]) for each in given)
    ours, theirs, rows, worst = set[tuple[int, ...]](), set[tuple[int, ...]](), 0, (0, 0, 0)
    known = {row for each in (*given, *own) for row in zip(*each, strict=True)}
    for one, other in zip(given, own, strict=True):
        if len(one[0]) != len(other[0]):
            break
        ours.update(zip(*one, strict=True))
        theirs.update(zip(*other, strict=True))
        rows += len(one[0])
        again, expected = rows - len(ours), rows - len(theirs)
        chance = 0.0 if len(theirs) == rows == len(known) else _SIGMAS * (again + expected) ** 0.5
        if again - expected > max(longest / 2, chance, worst[1] - worst[2]):
            worst = (rows, again, expected)
    return worst


def _rows(parts: Sequence[np.ndarray[Any, Any]]) -> _Rows | None:
    """A number for each row of each part; None where they are not as many in each."""
    lengths = {len(part) if part.ndim else None for part in parts}
    if not parts or len(lengths) > 1 or None in lengths:
        return None
    return [[_number(row) for row in part] for part in parts]


def _number(row: Any) -> int:
    return int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=8).digest(), "little")
