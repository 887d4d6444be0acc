"""The examples that a run was given next to those that one device is given: how many, which, and whether their parts
belong together. A feature that comes with another example's label is no example.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from harness.evidence.counters import GivenSeen, PartMix
from harness.evidence.steps.store import data_of

if TYPE_CHECKING:
    import numpy as np

_Rows = list[list[int]]
_SIGMAS = 4
_ROUNDING = 2.0**-16
"""Of the largest number: so far roundings of float32 take what is computed by a few hundred operations."""


class ExampleRows:
    """Compares them step by step, and over all steps where their order is another one.

    Attributes:
        differing: how many steps were given other examples than one device.
    """

    def __init__(self) -> None:
        self.differing = 0
        self._steps: list[int] = []
        self._given: list[_Rows] = []
        self._own: list[_Rows] = []
        self._shaped_alike = True
        self._wide: set[tuple[int, int]] = set()
        self._sizes = (0, 0)

    def add(
        self, step: int, given: Sequence[np.ndarray[Any, Any]], own: Sequence[np.ndarray[Any, Any]]
    ) -> GivenSeen | None:
        """What is to be said of the examples of one call.

        Args:
            step: of which it is.
            given: each part of the examples of all replicas, such as features and labels; rows are examples.
            own: the same of what one device is given by the same program.

        Returns:
            None where the parts have not the same number of rows, so that nobody knows what an example is.
        """
        given, own = _of_examples(given, own)
        theirs = _rows(own)
        ours = theirs if _is_rounded(given, own) else _rows(given)
        if ours is None or theirs is None:
            return None
        self._steps.append(step)
        self._given.append(ours)
        self._wide.update((len(own), part) for part, rows in enumerate(own) if rows.size > len(rows))
        self._own.append(theirs)
        self._shaped_alike &= all(one.shape[1:] == other.shape[1:] for one, other in zip(given, own, strict=True))
        others = _others([ours], [theirs])
        sizes = len(ours[0]), len(theirs[0])
        self.differing += bool(others or sizes[0] != sizes[1])
        if sizes[0] != sizes[1] and not any(self._sizes):
            self._sizes = sizes
        return GivenSeen(len(ours[0]), len(theirs[0]), others)

    def over_all(self) -> GivenSeen | None:
        """The same of all steps together, of calls with as many parts; None where there were none."""
        calls = zip(self._steps, self._given, self._own, strict=True)
        by_parts = itertools.groupby(sorted(calls, key=_parts), key=_parts)
        found = [self._over(*map(list, zip(*each, strict=True))) for _, each in by_parts]
        if len(found) < 2:
            return msgspec.structs.replace(found[0], sizes=self._sizes) if found else None
        number = _hashed(repr([each.number for each in found]).encode()) if self._shaped_alike else 0
        return GivenSeen(
            sum(each.rows for each in found),
            sum(each.own for each in found),
            sum(each.others for each in found),
            tuple(mix for each in found for mix in each.mixes),
            sum(each.changed for each in found),
            number=number,
            sizes=self._sizes,
        )

    def _over(self, steps: Sequence[int], given: Sequence[_Rows], own: Sequence[_Rows]) -> GivenSeen:
        others = _others(given, own)
        alike = self._shaped_alike  # else rows may be padded
        wide = sorted(part for parts, part in self._wide if parts == len(own[0]) > 1)
        return GivenSeen(
            sum(len(each[0]) for each in given),
            sum(len(each[0]) for each in own),
            others,
            tuple(_part_mixes(steps, given, own)) if others else (),
            _changed(given, own) if others and alike else 0,
            _again(given, own, wide),
            _number_of_all(own) if alike else 0,
        )


def _of_examples(
    given: Sequence[np.ndarray[Any, Any]], own: Sequence[np.ndarray[Any, Any]]
) -> tuple[Sequence[np.ndarray[Any, Any]], Sequence[np.ndarray[Any, Any]]]:
    """Both without what each replica is given whole, such as noise for the weights: it is what one device is given.

    It has another number of rows than those that differ, or than most parts where none does.
    """
    pairs = list(zip(given, own, strict=True))
    same = [one.shape == other.shape and data_of(one) == data_of(other) for one, other in pairs]
    counts = Counter((len(one), len(other)) for one, other in pairs)
    apart = {(len(one), len(other)) for (one, other), equal in zip(pairs, same, strict=True) if not equal}
    if len(counts) < 2 or len(apart) > 1:
        return given, own
    (size, most), (_, other), *_ = counts.most_common()
    if not apart and most == other:
        return given, own
    size = next(iter(apart or [size]))
    found = [(one, other) for one, other in pairs if (len(one), len(other)) == size]
    return [one for one, _ in found], [other for _, other in found]


def _parts(call: tuple[int, _Rows, _Rows]) -> int:
    return len(call[1])


def _others(given: Sequence[_Rows], own: Sequence[_Rows]) -> int:
    """How many examples one device has not."""
    whole, expected = (Counter(row for each in every for row in zip(*each, strict=True)) for every in (given, own))
    return sum((whole - expected).values())


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


def _again(given: Sequence[_Rows], own: Sequence[_Rows], wide: Iterable[int]) -> tuple[int, int, int]:
    """Where most more examples came again than on one device: of how many, how often they did, and how often there.

    So it is told of one part, such as features, whose examples come again beside other ones; not of single numbers,
    which each worker may count. See `_rows_again`.
    """
    every = [_rows_again(given, own), *(_rows_again(_only(given, part), _only(own, part)) for part in wide)]
    return max(every, key=lambda found: found[1] - found[2])


def _only(batches: Sequence[_Rows], part: int) -> Sequence[_Rows]:
    return [[each[part]] for each in batches]


def _rows_again(given: Sequence[_Rows], own: Sequence[_Rows]) -> tuple[int, int, int]:
    """Where most more rows came again than on one device.

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


def _is_rounded(given: Sequence[np.ndarray[Any, Any]], own: Sequence[np.ndarray[Any, Any]]) -> bool:
    """Whether they are the same, one by one, but for roundings of what a program has computed them from."""
    import numpy as np

    for one, other in zip(given, own, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if one.dtype.kind != "f":
            if not np.array_equal(one, other):
                return False
            continue
        size = np.max(np.abs(other), initial=0.0)
        if not np.all(np.abs(one - other) <= _ROUNDING * size):
            return False
    return True


def _number(row: Any) -> int:
    import numpy as np

    # Who pads a row does so with zeros, and each replica may pad its own batch.
    return _hashed(data_of(np.asarray(row)).rstrip(b"\0"))


def _number_of_all(batches: Sequence[_Rows]) -> int:
    """The same for the same examples in whatever order."""
    return _hashed(repr(sorted(row for each in batches for row in zip(*each, strict=True))).encode())


def _hashed(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


# ---------------------------------------------------------------------- parts that the run has mixed


_KEYS_MAX = 4
_LOOSE = 0.1
"""Of the values of a part that come with several of another one: with more, nothing ties the two."""
_MORE = 0.25
"""Of the values of a part, those that may come more often than on one device: by chance, where an epoch has no end."""
_STEPS_MAX = _OWNERS_MAX = 64


def _part_mixes(steps: Sequence[int], given: Sequence[_Rows], own: Sequence[_Rows]) -> Iterator[PartMix]:
    """The pairs of parts that the run has mixed.

    A part is of another example where its value is one that one device has, but with another value of a part that tells
    examples apart. Of neither may many come more often than on one device: a number that each worker counts does.

    Args:
        steps: the number of each call's step.
        given: the rows of each call, part by part a number for each row.
        own: the same of one device.
    """
    parts = range(len(own[0]))
    ours, theirs = ([Counter(row for each in every for row in each[part]) for part in parts] for every in (given, own))
    known = [part for part in parts if (ours[part] - theirs[part]).total() <= _MORE * ours[part].total()]
    for key in sorted(known, key=lambda part: -len(theirs[part]))[:_KEYS_MAX]:
        for other in known:
            if other != key and (owners := _owners(own, key, other)):
                yield from _mixed(steps, given, (len(parts), key, other), owners)


def _owners(own: Sequence[_Rows], key: int, other: int) -> dict[int, int]:
    """The value of `other` that comes with each of `key` on one device; nothing if often several come with one."""
    found: dict[int, int] = {}
    several = set[int]()
    for rows in own:
        for one, value in zip(rows[key], rows[other], strict=True):
            if found.setdefault(one, value) != value:
                several.add(one)
    if len(several) > _LOOSE * len(found):
        return {}
    return {one: value for one, value in found.items() if one not in several}


def _mixed(
    steps: Sequence[int], given: Sequence[_Rows], parts: tuple[int, int, int], owners: dict[int, int]
) -> Iterator[PartMix]:
    _, key, other = parts
    by_step: Counter[int] = Counter()
    for step, rows in zip(steps, given, strict=True):
        by_step[step] += sum(owners.get(one, value) != value for one, value in zip(rows[key], rows[other], strict=True))
    if total := by_step.total():
        wrong = tuple((step, count) for step, count in by_step.items() if count)
        yield PartMix(parts, total, wrong[:_STEPS_MAX], tuple(sorted(owners.items())[:_OWNERS_MAX]))
