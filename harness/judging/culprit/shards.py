"""A watched step of variables in shards, held against one device that has each of them whole.

What is done for every variable stands at one line, once for each in the reference, and once for each shard in the run.
To such a line the shards of a variable are what replicas are to a step: each has its own rows, the same, or parts that
add up. What a library makes of shards, such as a lookup that joins their rows, has no counterpart.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgspec

from harness.evidence.watched_step import APART, SHARD, Op, WatchedStep
from harness.judging.culprit.alignment import Alignment, OperationNode
from harness.judging.culprit.client_step import ARRIVED, ClientStep
from harness.judging.culprit.relations import PARTIAL, REPLICATED, SPLIT, Relation

if TYPE_CHECKING:
    import numpy as np


# As TensorFlow names them (`tf.distribute.experimental.partitioners`).
_NAME = re.compile(r"(?P<whole>.+)/part_(?P<number>\d+)")
_COMPARED_MAX = 1 << 22
"""Elements of a comparison of each row with each other one."""

_Wholes = Mapping[str, tuple[str, int]]
"""Of each shard the name of its variable, and its number."""

_Line = tuple[str, tuple[tuple[str, int, str], ...]]
_Order = tuple[tuple[int, int], ...]
"""Of each turn of a loop of the run: which turn of the reference's has the whole, and which shard it is."""


def wholes_of(run: WatchedStep, reference: WatchedStep) -> dict[str, tuple[str, int]]:
    """The shards of the run whose variables the reference has whole."""
    whole = {seen.name for seen in reference.variables}
    names = {seen.name for seen in run.variables} - whole
    found = {name: match for name in sorted(names) if (match := _NAME.fullmatch(name))}
    return {name: (each["whole"], int(each["number"])) for name, each in found.items() if each["whole"] in whole}


class ShardsAlignment(Alignment):
    """One client and its reference; as `Alignment`."""

    def __init__(
        self, clients: Sequence[WatchedStep], reference: WatchedStep, noisy: Sequence[WatchedStep], **about: Any
    ) -> None:
        (run,) = clients
        wholes = wholes_of(run, reference)
        self._counts = Counter(whole for whole, _ in wholes.values())
        self._firsts = _first_rows(run, wholes)
        loops = _Loops(run, reference, wholes)
        whole, *others = map(loops.of_one_device, [reference, *noisy])
        super().__init__([loops.of_run], whole, others, **about)

    def related(self, truth: int, tensors: Sequence[tuple[int, int]]) -> frozenset[Relation] | None:
        """As `Alignment.related`. Of shards each may have its rows of a value, in any order and by their number in it.

        Of what is true or false nothing is said: what follows from it tells more.
        """
        found = super().related(truth, tensors)
        values = self.reference.values(truth)
        if found is None or len(values) != 1 or len(tensors) < 2:
            return found
        if values[0].dtype.kind == "b":
            return None
        right = {each for each in found if each.right and each.kind in (REPLICATED, SPLIT, PARTIAL)}
        parts = [each[0] for each in self.parts(truth, tensors, sketched=self.reference.is_sketched(truth))]
        return frozenset(right | set(self._by_rows(values[0], parts, self.allowed(truth, 0))))

    def _assigned(self) -> dict[int, tuple[OperationNode, ...]]:
        """As `Alignment._assigned`, of shards only where each of them is changed at the line of the reference's."""
        found = dict[int, tuple[OperationNode, ...]]()
        for number, nodes in super()._assigned().items():
            theirs = self.reference.by_number[number]
            line, lines = _line(self.reference, theirs), {_line(self.sides[0], self.op(each)) for each in nodes}
            if theirs.variable not in self._counts or (len(nodes) == self._counts[theirs.variable] and lines == {line}):
                found[number] = nodes
        return found

    def _by_rows(
        self, truth: np.ndarray[Any, Any], parts: list[np.ndarray[Any, Any]], allowed: np.ndarray[Any, Any]
    ) -> Iterator[Relation]:
        firsts = [each for each in self._firsts if len(each) == len(parts)] if truth.dtype.kind in "iu" else []
        for begins in [(0,) * len(parts), *firsts]:
            moved = [part + begin for part, begin in zip(parts, begins, strict=True)]
            if all(each.shape == truth.shape and (each == truth).all() for each in moved):
                yield Relation(REPLICATED)
            if _are_rows(truth, moved, allowed):
                yield Relation(SPLIT)


def _line(side: ClientStep, op: Op) -> tuple[str, int] | None:
    caller = side.caller(op)
    return None if caller is None else (caller.file, caller.line)


def _first_rows(run: WatchedStep, wholes: _Wholes) -> list[tuple[int, ...]]:
    """Of each variable in shards the number of each shard's first row."""
    rows: dict[str, dict[int, int]] = defaultdict(dict)
    for seen in run.variables:
        if seen.name in wholes:
            whole, number = wholes[seen.name]
            rows[whole][number] = seen.rows
    sizes = {tuple(each[number] for number in sorted(each)) for each in rows.values()}
    return [tuple(accumulate(each[:-1], initial=0)) for each in sorted(sizes)]


@dataclass(frozen=True)
class _Turns:
    """A line of a loop: the operations of each turn in the run, and in the reference."""

    ours: list[list[Op]]
    theirs: list[list[Op]]

    @property
    def counts(self) -> tuple[int, int]:
        return len(self.ours), len(self.theirs)


class _Loops:
    """The lines of which the run has more turns than the reference, one for each shard.

    Attributes:
        of_run: the run, whose operations there are one place for each shard. What has no counterpart is apart.
    """

    def __init__(self, run: WatchedStep, reference: WatchedStep, wholes: _Wholes) -> None:
        self._wholes = wholes
        self._theirs: dict[_Line, tuple[int, dict[int, str]]] = {}
        zones = dict[int, tuple[str, int]]()
        ours, theirs = ClientStep(run), ClientStep(reference)
        unknown = list[tuple[_Line, list[_Turns]]]()
        orders: dict[tuple[int, int], set[_Order]] = defaultdict(set)
        for zone, index in ours.places:
            known = theirs.groups(zone, 0)
            for line, ops in ours.groups(zone, index).items():
                zones |= self._apart(_unlike(ops, known.get(line, ())))
                loops = list(_turns(_computing(ops), _computing(known.get(line, ()))))
                told = [(turns, order) for turns in loops if (order := self._by_variables(turns)) is not None]
                for turns, order in told[:1]:
                    orders[turns.counts].add(order)
                    zones |= self._places(line, turns, order)
                if not told:
                    unknown.append((line, loops))
        for line, loops in unknown:
            fitting = [(turns, order) for turns in loops for order in orders.get(turns.counts, ())]
            if len(fitting) == 1:
                zones |= self._places(line, *fitting[0])
        zones = self._apart(op for op in run.ops if op.variable in wholes) | zones
        self.of_run = msgspec.structs.replace(run, ops=tuple(self._moved(op, zones) for op in run.ops))

    def of_one_device(self, watched: WatchedStep) -> WatchedStep:
        """The reference, whose turns at these lines are places too."""
        side = ClientStep(watched)
        zones = dict[int, tuple[str, int]]()
        for zone, index in side.places:
            for line, ops in side.groups(zone, index).items():
                size, names = self._theirs.get(line, (0, {}))
                if size:
                    turns = enumerate(_cut(_computing(ops), size))
                    zones |= {op.number: (names[turn], 0) for turn, made in turns if turn in names for op in made}
        return msgspec.structs.replace(watched, ops=tuple(self._moved(op, zones) for op in watched.ops))

    def _moved(self, op: Op, zones: Mapping[int, tuple[str, int]]) -> Op:
        zone, index = zones.get(op.number, (op.zone, op.index))
        name, _ = self._wholes.get(op.variable, (op.variable, 0))
        return msgspec.structs.replace(op, zone=zone, index=index, variable=name)

    def _apart(self, ops: Iterable[Op]) -> dict[int, tuple[str, int]]:
        return {op.number: (APART, self._wholes.get(op.variable, ("", 0))[1]) for op in ops}

    def _by_variables(self, turns: _Turns) -> _Order | None:
        """Which turn belongs to which, if each reads or changes a variable that no other one of the reference does."""
        names = [{op.variable for op in made} - {""} for made in turns.theirs]
        once = {name: turn for turn, each in enumerate(names) for name in each if sum(name in n for n in names) == 1}
        found = []
        for made in turns.ours:
            places = {self._wholes.get(op.variable, (op.variable, 0)) for op in made if op.variable}
            belongs = {(once[name], number) for name, number in places if name in once}
            if len(belongs) != 1:
                return None
            found.append(belongs.pop())
        whole = {turn: sorted(number for other, number in found if other == turn) for turn in range(len(turns.theirs))}
        return tuple(found) if all(each == list(range(len(each))) and each for each in whole.values()) else None

    def _places(self, line: _Line, turns: _Turns, order: _Order) -> dict[int, tuple[str, int]]:
        """Where the operations of a line belong: a zone for each variable, in which its shards are counted."""
        shards = Counter(turn for turn, _ in order)
        names = {turn: f"{SHARD} of {shards[turn]} at {turn}" for turn in shards}
        self._theirs[line] = len(turns.theirs[0]), names
        pairs = zip(order, turns.ours, strict=True)
        return {op.number: (names[turn], number) for (turn, number), made in pairs for op in made}


def _turns(ours: Sequence[Op], theirs: Sequence[Op]) -> Iterator[_Turns]:
    """Everything that the turns of a line may be: equal to each other, and more in the run than in the reference."""
    types = [op.type for op in theirs]
    for size in range(1, len(theirs) + 1):
        turn = types[:size]
        if len(theirs) % size or types != turn * (len(theirs) // size):
            continue
        if len(ours) % size == 0 and [op.type for op in ours] == turn * (len(ours) // size) and len(ours) > len(theirs):
            yield _Turns(_cut(ours, size), _cut(theirs, size))


def _cut(ops: Sequence[Op], size: int) -> list[list[Op]]:
    return [list(ops[at : at + size]) for at in range(0, len(ops), size)]


def _computing(ops: Sequence[Op]) -> list[Op]:
    """Without what is there once, however often it is used."""
    return [op for op in ops if op.type not in ("Const", *ARRIVED) and not op.differentiates]


def _unlike(ours: Sequence[Op], theirs: Sequence[Op]) -> list[Op]:
    """Those of whose type the same line has another number in the reference."""
    counts, wanted = (Counter((op.type, op.differentiates) for op in ops) for ops in (ours, theirs))
    return [op for op in ours if counts[op.type, op.differentiates] != wanted[op.type, op.differentiates]]


def _are_rows(truth: np.ndarray[Any, Any], parts: list[np.ndarray[Any, Any]], allowed: np.ndarray[Any, Any]) -> bool:
    """Whether parts have together the rows of a value, each as often as that has it."""
    import numpy as np

    if not truth.ndim or any(part.shape[1:] != truth.shape[1:] for part in parts):
        return False
    joined = np.concatenate(parts)
    if joined.shape != truth.shape or not truth.size or len(truth) * truth.size > _COMPARED_MAX:
        return False
    theirs, ours = (each.reshape(len(truth), -1).astype(np.float64) for each in (truth, joined))
    off = np.broadcast_to(allowed, truth.shape).reshape(len(truth), -1)
    equal, found = ((np.abs(each[:, None] - theirs) <= off).all(axis=2).sum(axis=0) for each in (theirs, ours))
    return bool((equal == found).all())
