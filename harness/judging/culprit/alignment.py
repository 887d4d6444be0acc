"""The operations of a run held against the reference's: which is which, and how their values are related."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from harness.evidence.eps import EPS
from harness.evidence.watch_request import WatchRequest
from harness.evidence.watched_step import BATCHES, OUTER, PYTHON, REPLICA, UPDATE, Op, WatchedStep, WatchedVariable
from harness.judging.culprit.client_step import ClientStep, matched
from harness.judging.culprit.example_order import Entering, order_of
from harness.judging.culprit.relations import REPLICATED, ExampleOrder, Relation, are_padded, holding

if TYPE_CHECKING:
    import numpy as np


_NOISE_TIMES = 32.0
"""How much further than in the reruns with noise a value may be off: two draws, and a run has other roundings."""

_EPS_TIMES = 64.0
"""Roundings of the largest number of a value that are no mistake in any case."""


if TYPE_CHECKING:
    Parts = list[list[np.ndarray[Any, Any]]]
else:
    Parts = list


@dataclass(frozen=True)
class ReplicaPlace:
    """A replica, a copy, or what is outside of them, of one client of the run."""

    client: int
    zone: str
    index: int


@dataclass(frozen=True)
class OperationNode:
    """An operation of a run: whose it is and its number there."""

    client: int
    number: int


class Alignment:
    """A watched run and its reference.

    Args:
        clients: of the run, in their order.
        reference: the default strategy's.
        noisy: the same with noise.
        turns: how many of the values that a tensor had in the step count, the first ones; None for all.
        asked: takes the operations that were not looked at and of which a value was asked for.
    """

    def __init__(
        self,
        clients: Sequence[WatchedStep],
        reference: WatchedStep,
        noisy: Sequence[WatchedStep],
        turns: int | None = None,
        asked: WatchRequest | None = None,
    ) -> None:
        self._turns = turns
        asked = WatchRequest.none(clients, noisy) if asked is None else asked
        named = (alike_named(client, reference) for client in clients)
        self.sides = [ClientStep(client, numbers) for client, numbers in zip(named, asked.clients, strict=True)]
        self.reference = ClientStep(reference, asked.reference)
        self._noisy = [ClientStep(each, numbers) for each, numbers in zip(noisy, asked.noisy, strict=True)]
        self._relations: dict[int, frozenset[Relation] | None] = {}

    @cached_property
    def places(self) -> dict[str, tuple[ReplicaPlace, ...]]:
        """All places by their zone, in the order of replicas."""
        found: dict[str, list[ReplicaPlace]] = defaultdict(list)
        for client, side in enumerate(self.sides):
            for zone, index in side.places:
                found[zone].append(ReplicaPlace(client, zone, index))
        # The number of a replica counts over all clients.
        return {
            zone: tuple(
                sorted(each, key=lambda at: (at.index, at.client) if zone == REPLICA else (at.client, at.index))
            )
            for zone, each in found.items()
        }

    @cached_property
    def _matches(self) -> dict[ReplicaPlace, dict[int, int]]:
        """By place the operations of the reference and which of the run's they are."""
        return {
            place: matched(self.reference, self.sides[place.client], place.zone, place.index)
            for places in self.places.values()
            for place in places
        }

    @cached_property
    def noise(self) -> list[dict[int, int]]:
        """By number of the reference's operation that of each rerun with noise."""
        found = []
        for side in self._noisy:
            pairs: dict[int, int] = {}
            for zone, index in side.places:
                pairs.update(matched(self.reference, side, zone, index))
            found.append(pairs)
        return found

    @cached_property
    def counterparts(self) -> dict[int, tuple[OperationNode, ...]]:
        """By number of the reference's operation those of the run, where every place of its zone has one."""
        found: dict[int, tuple[OperationNode, ...]] = {}
        assigned = {op.variable for side in self.sides for op in side.assigning()}  # which may have names of its own
        for op in self.reference.watched.ops:
            places = self.places.get(op.zone, ())
            pairs = [(place, self._matches[place].get(op.number)) for place in places]
            if pairs and all(number is not None for _, number in pairs):
                nodes = tuple(OperationNode(place.client, number) for place, number in pairs if number is not None)
                # Updates of several variables are made at one line, in an order of each strategy's own.
                if op.variable not in assigned or all(self.op(node).variable == op.variable for node in nodes):
                    found[op.number] = nodes
        return found | self._assigned()

    def _assigned(self) -> dict[int, tuple[OperationNode, ...]]:
        """The same of operations on variables that change them, by variable and how often it was changed.

        A strategy may change all copies of a variable from another place than the program does, and after a sum. Where
        a variable is made within the step, what it begins with comes from a place of its own too, so that those count
        which were made where the last one was.
        """
        theirs = defaultdict(list)
        for op in self.reference.assigning():
            theirs[op.variable].append(op)
        ours: dict[str, dict[ReplicaPlace, list[Op]]] = defaultdict(lambda: defaultdict(list))
        for client, side in enumerate(self.sides):
            for op in side.assigning():
                ours[op.variable][ReplicaPlace(client, op.zone, op.index)].append(op)
        found: dict[int, tuple[OperationNode, ...]] = {}
        for name, changes in theirs.items():
            zone = max((each[-1].number, place.zone) for place, each in ours[name].items())[1] if ours[name] else ""
            copies = sorted(
                ((place, each) for place, each in ours[name].items() if place.zone == zone),
                key=lambda item: (item[0].client, item[0].index),
            )
            ops = [op for op in changes if op.zone == changes[-1].zone]
            count = min(len(ops), *(len(each) for _, each in copies)) if copies else 0
            last = [ops[-count:], *(each[-count:] for _, each in copies)]
            if not count or any([op.type for op in each] != [op.type for op in last[0]] for each in last):
                continue
            for op, *each in zip(*last, strict=True):
                found[op.number] = tuple(
                    OperationNode(at.client, one.number) for (at, _), one in zip(copies, each, strict=True)
                )
        return found

    @cached_property
    def truths(self) -> dict[OperationNode, int]:
        """By operation of the run the reference's."""
        return {node: number for number, nodes in self.counterparts.items() for node in nodes}

    def op(self, node: OperationNode) -> Op:
        """The operation itself."""
        return self.sides[node.client].by_number[node.number]

    def is_whole(self, node: OperationNode) -> bool:
        """Whether an operation gives whole numbers."""
        side = self.sides[node.client]
        return any(value.dtype.kind in "iu" for tensor in self.op(node).outputs for value in side.values(tensor))

    def output(self, number: int, position: int = 0) -> frozenset[Relation] | None:
        """How an output of the reference's operation is related to the run's; None if that cannot be told."""
        op = self.reference.by_number[number]
        tensor = op.outputs[position]
        if tensor not in self._relations:
            nodes = self.counterparts.get(number)
            tensors = None
            if nodes is not None:
                found = [(node.client, self.op(node).outputs) for node in nodes]
                if all(position < len(outputs) for _, outputs in found):
                    tensors = [(client, outputs[position]) for client, outputs in found]
            relations = None if tensors is None else self.related(tensor, tensors)
            if relations and self._are_copies(tensor, tensors or ()):
                relations = _of_one(relations)
            self._relations[tensor] = relations
        return self._relations[tensor]

    def _are_copies(self, truth: int, tensors: Sequence[tuple[int, int]]) -> bool:
        """Whether tensors of the run are one value that all copies of a variable are updated by."""
        if len(tensors) < 2 or not all(self._is_made_in(UPDATE, *each) for each in tensors):
            return False
        first, *others = [[value.tobytes() for value in each] for each in self.parts(truth, tensors)]
        return all(each == first for each in others)

    def related(self, truth: int, tensors: Sequence[tuple[int, int]]) -> frozenset[Relation] | None:
        """How a tensor of the reference is related to tensors of the run, each given with its client.

        Of one that has had several values the relations that hold of all.
        """
        expected = self.reference.values(truth)
        sketched = self.reference.is_sketched(truth)
        parts = self.parts(truth, tensors, sketched=sketched)
        if not expected or any(len(each) != len(expected) for each in parts):
            return None
        rows = {self.reference.row(truth), *(self.sides[client].row(tensor) for client, tensor in tensors)}
        if sketched and len(rows) > 1:
            return None  # cannot be told where the rows themselves are split
        found: frozenset[Relation] | None = None
        for turn, value in enumerate(expected[: self._turns]):
            allowed = self.allowed(truth, turn)
            here = holding(value, [each[turn] for each in parts], allowed, self.order)
            found = here if found is None else found & here
        if not found and self._are_flattened(expected[0], [each[0] for each in parts]):
            return None
        # What was made once and is given to all copies of a variable has no parts.
        if found and len(tensors) > 1 and len(set(tensors)) == 1:
            return _of_one(found)
        is_outer = len(tensors) == 1 and self._is_made_in(OUTER, *tensors[0])
        return self._multiples(truth, expected, parts) if is_outer and not found else found

    def _are_flattened(self, truth: np.ndarray[Any, Any], parts: list[np.ndarray[Any, Any]]) -> bool:
        """Whether these may be padded rows as one list, of which nobody knows where each row ends."""
        if not self._pads or not truth.ndim or all(part.shape == truth.shape for part in parts):
            return False
        return sum(len(part) for part in parts if part.ndim) != len(truth)

    @cached_property
    def _pads(self) -> bool:
        """Whether each replica is given a batch that it pads by itself."""
        return any(are_padded(value, parts) for parts, value in self.entering)

    def _is_made_in(self, zone: str, client: int, tensor: int) -> bool:
        op = self.sides[client].producer(tensor)
        return op is not None and op.zone == zone

    def _multiples(self, truth: int, expected: Sequence[np.ndarray[Any, Any]], parts: Parts) -> frozenset[Relation]:
        """As `related`, of what is computed once for all replicas: by which power of their number it is larger."""
        every = [
            _of_one(holding(value, [part] * self.replicas, self.allowed(truth, turn), None))
            for turn, (value, part) in enumerate(list(zip(expected, parts[0], strict=True))[: self._turns])
        ]
        return frozenset.intersection(*every) if every else frozenset()

    def parts(self, truth: int, tensors: Sequence[tuple[int, int]], *, sketched: bool = False) -> Parts:
        """The values of tensors of the run, each given with its client, that are held against one of the reference."""
        return [self.sides[client].values(tensor, sketched=sketched) for client, tensor in tensors]

    def allowed(self, truth: int, turn: int) -> np.ndarray[Any, Any]:
        """By how much each element of a value of the reference may be off by rounding."""
        import numpy as np

        value = self.reference.values(truth)[turn]
        if value.dtype.kind not in "fc" or value.size == 0:
            return np.zeros(value.shape)
        dtypes = (self.reference.taken(truth)[turn].array.dtype, self._cast_from(truth))
        eps = max(EPS.get(dtype, 2.0**-23) for dtype in dtypes)
        with np.errstate(all="ignore"):
            off = _EPS_TIMES * eps * np.abs(np.where(np.isfinite(value), value, 0)).astype(np.float64)
            for noise in self._perturbed(truth, turn, value.shape):
                moved = np.abs(noise.astype(np.float64) - value)
                off = np.maximum(off, _NOISE_TIMES * np.where(np.isfinite(moved), moved, 0))
        return _spread(off)

    def _cast_from(self, truth: int) -> str:
        """The dtype that a value of the reference was cast from, which has no more precision than that; else empty."""
        producer = self.reference.producer(truth)
        return self.reference.dtype(producer.inputs[0]) if producer is not None and producer.type == "Cast" else ""

    def _perturbed(self, truth: int, turn: int, shape: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
        producer = self.reference.producer(truth)
        if producer is None:
            return []
        position = producer.outputs.index(truth)
        found = []
        for side, pairs in zip(self._noisy, self.noise, strict=True):
            if (number := pairs.get(producer.number)) is None:
                continue
            values = (
                side.values(side.by_number[number].outputs[position])
                if position < len(side.by_number[number].outputs)
                else []
            )
            if turn < len(values) and values[turn].shape == shape:
                found.append(values[turn])
        return found

    @cached_property
    def order(self) -> ExampleOrder | None:
        """The order of the examples over the replicas, where it is another than the reference's."""
        return order_of(self.entering)

    @cached_property
    def entering(self) -> list[Entering]:
        """What enters the functions of replicas: operands of operations that come from where nothing is aligned."""
        found: list[Entering] = []
        for number, nodes in sorted(self.counterparts.items()):
            op = self.reference.by_number[number]
            if op.zone != REPLICA or len(nodes) < 2:
                continue
            for position, tensor in enumerate(op.inputs):
                producer = self.reference.producer(tensor)
                if producer is None or (producer.number in self.counterparts and producer.zone == REPLICA):
                    continue
                if producer.type in (BATCHES, PYTHON) or producer.differentiates:  # a gradient is no example
                    continue
                given = [(node.client, self.op(node).inputs) for node in nodes]
                if any(position >= len(inputs) or not inputs[position] for _, inputs in given):
                    continue
                parts = self.parts(tensor, [(client, inputs[position]) for client, inputs in given])
                values = self.reference.values(tensor)
                if len(values) == 1 and all(len(each) == 1 for each in parts):
                    found.append(([each[0] for each in parts], values[0]))
        return found

    @property
    def replicas(self) -> int:
        """Of the run."""
        return max(client.replicas for client in (side.watched for side in self.sides))

    @cached_property
    def variables(self) -> Mapping[str, WatchedVariable]:
        """What is known of variables, by name."""
        return {seen.name: seen for side in self.sides for seen in side.watched.variables}


def _of_one(found: frozenset[Relation]) -> frozenset[Relation]:
    """Of these relations those of one value that several places have, whose halves would add up, too."""
    return frozenset(each for each in found if each.kind == REPLICATED)


def _spread(off: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same for elements that share a scale: the smaller one of a row's and a column's largest.

    Few draws leave single elements where they were by accident; what is in one column, such as a feature, is of one
    scale, and what is in one row of the gradient of its weights too.
    """
    import numpy as np

    if off.ndim == 0:
        return off
    columns = off.max(axis=tuple(range(off.ndim - 1)), keepdims=True) if off.ndim > 1 else off.max(keepdims=True)
    if off.ndim != 2:
        return np.broadcast_to(columns, off.shape)
    rows = off.max(axis=1, keepdims=True)
    return (
        np.minimum(np.broadcast_to(columns, off.shape), rows) if min(off.shape) > 1 else np.full(off.shape, off.max())
    )


# Variables of a run under the names that the reference has for them.


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
