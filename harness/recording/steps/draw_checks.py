"""What is to be said of a run's draws by themselves, before they are taken for one replica's.

Two replicas that draw the same numbers for different examples, a draw that comes again at another step or on another
replica, a distribution that depends on the number of devices: none of these shows in what is computed from the draws.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.evidence.arrays import are_orders
from harness.evidence.steps import EvidenceReader, PlaceValue, Standing, StepPlace, Stored
from harness.evidence.trace import DrawSeen
from harness.recording.steps.protocol import SORTED
from harness.recording.steps.python_calls import PYTHON, PythonCall
from harness.recording.steps.row_joins import (
    Parts,
    are_own_draws,
    joined_draw,
    joined_order,
    rows_axis,
    summed_draw,
)

if TYPE_CHECKING:
    import numpy as np


_TELLING_BITS = 48
"""Of draws with fewer random bits, replicas or steps have equal ones by chance."""
_PERMUTING = ("RandomShuffle", "StatelessShuffle", SORTED)
"""Operations whose draws are permutations, of which the seam makes operations of its own."""
_NORMAL = ("RandomStandardNormal", "StatelessRandomNormal", "StatelessRandomNormalV2")
"""Operations that draw standard normal numbers: TensorFlow multiplies them by a spread afterwards."""
_LOOKED_AT = 256
"""Numbers of which nearly all draws tell enough: a large one need not be sorted at each step."""


@dataclass(frozen=True)
class DrawSource:
    """Who draws: by which operation and line, whether a layer of Keras chose the seed, and whether anybody did."""

    operation: str
    where: str
    by_keras: bool
    seeded: bool

    @property
    def is_determined(self) -> bool:
        """Whether the program has said what is drawn, by a seed that it computes itself."""
        return self.operation.startswith("Stateless") and self.seeded and not self.by_keras

    @property
    def own(self) -> DrawSeen:
        """That each replica draws something of its own that belongs to no example."""
        return self.said("own", f"replicas draw by {self.operation} each for itself")

    @property
    def order(self) -> DrawSeen:
        """That each replica draws an order of its own rows."""
        return self.said("order", f"replicas draw by {self.operation} each an order of its own rows")

    @property
    def statistics(self) -> DrawSeen:
        """That each replica normalises by the statistics of its own examples."""
        return self.said("statistics", "replicas normalise each by its own batch")

    def joined(
        self, parts: Parts, own: np.ndarray[Any, Any], standing: Standing
    ) -> tuple[np.ndarray[Any, Any], DrawSeen | None]:
        """What all replicas drew, as one replica has it, and what is to be said of it.

        Args:
            parts: as of `joined_draw`, which this may fail as.
            own: as of `joined_draw`.
            standing: of that replica.
        """
        if self.gives_orders([*parts, own]):
            return joined_order(parts, own, ranks=standing.ranks), self.order if len(parts) > 1 else None
        if standing.own and are_own_draws(parts, own):
            if standing.own == "first":
                return parts[0], None
            if self.operation in _NORMAL:
                return summed_draw(parts), None
        return joined_draw(parts, own), None

    def gives_orders(self, arrays: Parts) -> bool:
        """Whether what it draws are orders of rows."""
        return self.operation in _PERMUTING or (self.operation == PYTHON and are_orders(arrays))

    def of_python(self, call: PythonCall) -> Iterator[DrawSeen]:
        """That Python gives what follows from more than random generators, its arguments, and of these each row."""
        if call.keeps_state:
            yield self.said("state", "Python keeps a state")
        if call.mixes_rows:
            yield self.said("mixed_rows", "what Python draws for an example depends on those beside it")

    def unlike(self, run: Any, own: Any) -> DrawSeen:
        """That the run draws from another distribution than one device."""
        return self.said("unlike", f"{self.operation} has a parameter of {run} in the run, and of {own} on one device")

    def said(self, kind: str, text: str) -> DrawSeen:
        """Something about what it draws."""
        return DrawSeen(kind, text, self.where, self.by_keras, self.operation)


_When = tuple[int, int | None]


class Repeats:
    """Knows what was drawn before, by the run and by one device."""

    def __init__(self) -> None:
        self._drawn: dict[bytes, tuple[_When, int]] = {}
        self._own: set[bytes] = set()
        self._repeating: set[StepPlace] = set()

    def look(
        self,
        source: DrawSource,
        when: _When,
        place: StepPlace,
        replicas: Sequence[int],
        parts: Sequence[Sequence[np.ndarray[Any, Any]]],
        own: Sequence[np.ndarray[Any, Any]],
    ) -> Iterator[DrawSeen]:
        """What is to be said of a draw.

        Args:
            source: who draws.
            when: the number of the step, and of the worker that did it for a coordinator.
            place: in it.
            replicas: their numbers.
            parts: what each of these drew.
            own: what one device draws itself.
        """
        if not all(map(_tells, (part[0] for part in parts))):
            return
        numbers = own[0]
        if (key := _key(numbers)) in self._own:
            self._repeating.add(place)  # it is meant so
        self._own.add(key)
        keys = [_key(part[0]) for part in parts]
        rows = rows_axis(numbers.shape, [part[0].shape for part in parts]) is not None
        if len(set(keys)) < len(keys):
            if rows and len(keys) > 1:
                yield from _equal(source, "replicas", when)
        elif place not in self._repeating:
            yield from self._again(source, when, dict(zip(replicas, keys, strict=True)))
        for replica, key in zip(replicas, keys, strict=True):
            self._drawn.setdefault(key, (when, replica))

    def _again(self, source: DrawSource, when: _When, keys: dict[int, bytes]) -> Iterator[DrawSeen]:
        for replica, key in keys.items():
            before, by = self._drawn.get(key, (when, replica))
            if before[1] != when[1]:
                yield from _equal(source, "workers", when)
                return
            if before == when and by != replica:  # in a loop over examples, of which one device makes a single one
                yield from _equal(source, "replicas", when)
                return
            if before != when:
                text = (
                    f"replica {replica} draws by {source.operation} what replica {by} drew at step {before[0]}, "
                    "and one device draws other numbers at each step"
                )
                yield source.said("again", text)
                return


def _equal(source: DrawSource, who: str, when: _When) -> Iterator[DrawSeen]:
    """By a seed of the draw's own, or by one that the program has set in each process.

    The workers of a coordinator draw by the seed of its process, which Lockstep sets.
    """
    if source.seeded or source.by_keras:
        yield source.said("equal", f"{who} draw the same numbers by {source.operation}")
    elif when[1] is None:
        yield source.said("equal_by_process", f"{who} draw the same numbers by {source.operation}")


def _key(array: np.ndarray[Any, Any]) -> bytes:
    return hashlib.blake2b(array.tobytes(), digest_size=16).digest()


def _tells(array: np.ndarray[Any, Any]) -> bool:
    """Whether it has so many random bits that two of them are equal for a reason."""
    flat = array.ravel()
    return _bits(flat[:_LOOKED_AT]) >= _TELLING_BITS or (flat.size > _LOOKED_AT and _bits(flat) >= _TELLING_BITS)


def _bits(numbers: np.ndarray[Any, Any]) -> float:
    """About how many random bits some numbers have: numbers of which several are equal may be a mask, or a choice."""
    import numpy as np

    if not numbers.size:
        return 0.0
    _, counts = np.unique(numbers, return_counts=True)
    if numbers.dtype.kind == "f" and len(counts) == numbers.size:
        return numbers.size * 20.0
    parts = counts / numbers.size
    return numbers.size * float(-np.sum(parts * np.log2(parts)))


def are_of_one_each(replicas: Sequence[Sequence[tuple[EvidenceReader, PlaceValue]]], own: Sequence[Any]) -> bool:
    """Whether each draw of a replica has the shape of one draw of one replica, so that they are no parts of it."""
    import numpy as np

    shapes = [np.shape(each) for each in own]
    return all([stored.shape for stored in each.arrays] == shapes for passed in replicas for _, each in passed)


_Passes = Sequence[Sequence[tuple[EvidenceReader, PlaceValue]]]


def in_turn(count: int, replicas: _Passes, given: Sequence[_Passes], calls: int) -> _Passes:
    """What one replica passes for the time `count`, from 0, in a loop over rows that several have passed, and the rest.

    In each call it passes for the rows of the first replica first. Each has passed once for each row that it was given,
    or equally often in each call; nothing where neither is so.

    Args:
        count: see above.
        replicas: what each has passed, in all calls.
        given: for each place at which these calls were given examples, what each replica was given in each call.
        calls: how many there were.
    """
    often, rest = divmod(max(map(len, replicas), default=0), calls)
    equally = [(often,) * len(replicas)] * (0 if rest else calls)
    by_rows = ([[sum(value.arrays[0].shape[:1]) for _, value in each] for each in place] for place in given)
    counts = [len(each) for each in replicas]
    turns = next((list(zip(*rows, strict=False)) for rows in by_rows if list(map(sum, rows)) == counts), equally)
    if max(itertools.chain(*turns), default=0) < 2:
        return ()
    begun = [0] * len(replicas)
    for turn in turns:
        for number, size in enumerate(turn):
            if count < size:
                return [replicas[number][begun[number] + count :]]
            begun[number], count = begun[number] + size, count - size
    return ()


def is_alike(reader: EvidenceReader, stored: Stored, own: Any) -> bool:
    """Whether a parameter of a distribution is the same, as far as it is one number for all examples."""
    import numpy as np

    if stored.shape or np.ndim(own):
        return True
    return bool(np.allclose(reader.array(stored).astype(float), np.asarray(own).astype(float), rtol=1e-3))
