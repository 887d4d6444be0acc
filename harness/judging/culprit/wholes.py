"""A watched step in which each replica has something for itself, held against replicas that stand each for a whole.

No single replica computes what all do where each draws weights of its own. The reference has as many replicas then, and
each is given what its own had as often as there are replicas. So the first of the run is to the first of the reference
what all would be to a single one if they had the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec

from harness.evidence.watched_step import OUTER, REPLICA, Op, WatchedStep
from harness.judging.culprit.alignment import Alignment, OperationNode, Parts
from harness.judging.culprit.client_step import ARRIVED, ClientStep
from harness.judging.culprit.relations import PARTIAL, SPLIT, Relation


class WholesAlignment(Alignment):
    """A run of which the first replica stands for all of them, and the first of its reference's; as `Alignment`."""

    def __init__(
        self, clients: Sequence[WatchedStep], reference: WatchedStep, noisy: Sequence[WatchedStep], **about: Any
    ) -> None:
        super().__init__(clients, _first(reference), [_first(each) for each in noisy], **about)

    def parts(self, truth: int, tensors: Sequence[tuple[int, int]], *, sketched: bool = False) -> Parts:
        """What all replicas would have if they had what the first one has."""
        found = super().parts(truth, tensors, sketched=sketched)
        if self._is_own(truth, tensors):
            return [found[0]] * len(found)
        return found

    def related(self, truth: int, tensors: Sequence[tuple[int, int]]) -> frozenset[Relation] | None:
        """As `Alignment.related`; what follows from examples and is another one on each replica is not the whole."""
        found = super().related(truth, tensors)
        client, tensor = tensors[0]
        if found is None or client or tensor not in self._of_examples or not self._is_own(truth, tensors):
            return found
        digests = [[each.digest for each in self.sides[place].taken(number)] for place, number in tensors]
        if all(each == digests[0] for each in digests):
            return found
        return frozenset(each for each in found if each.kind in (SPLIT, PARTIAL))

    def _is_own(self, truth: int, tensors: Sequence[tuple[int, int]]) -> bool:
        """Whether each replica has made its own value, or is given it."""
        client, tensor = tensors[0]
        made = self.sides[client].producer(tensor)
        if len(tensors) == 1 or made is None:
            return False
        return made.zone == REPLICA or _is_longer(self.reference, truth, self.sides[client], tensor)

    def is_sum(self, node: OperationNode) -> bool:
        """Whether an operation gives the sum of what it is given, so that it is not what makes a sum wrong."""
        import numpy as np

        op, made = self.op(node), _first_value(self.sides[node.client], self.op(node).outputs)
        if made is None:
            return False
        own = [(self.sides[node.client], tensor) for tensor in op.inputs]
        if op.type.startswith("Collective"):  # of which each device has one, with its own part
            own = [
                (side, each.inputs[0])
                for side in self.sides
                for each in side.watched.ops
                if each.type == op.type and np.array_equal(made, _first_value(side, each.outputs))
            ]
        given = [_first_value(side, (tensor,)) for side, tensor in own]
        if len(given) < 2 or any(each is None or each.shape != made.shape for each in given):
            return False
        total = np.sum([each.astype(np.float64) for each in given if each is not None], axis=0)
        return bool(np.allclose(total, made.astype(np.float64), rtol=1e-3, atol=1e-30))

    @cached_property
    def _of_examples(self) -> set[int]:
        """The tensors of the first replica that depend on its rows, which the reference has several times."""
        side, found = self.sides[0], set[int]()
        for op in side.watched.ops:
            if op.zone == REPLICA and op.index == 0 and self._takes_examples(side, op, found):
                found.update(op.outputs)
        return found

    def _takes_examples(self, side: ClientStep, op: Op, known: set[int]) -> bool:
        if any(tensor in known for tensor in op.inputs):
            return True
        digests = [each.digest for tensor in op.outputs for each in side.taken(tensor)] if op.type in ARRIVED else []
        if any(same in known for digest in digests for same in side.by_digest[digest]):
            return True
        if (number := self.truths.get(OperationNode(0, op.number))) is None:
            return False
        theirs = self.reference.by_number[number]
        pairs = [*zip(theirs.inputs, op.inputs, strict=False), *zip(theirs.outputs, op.outputs, strict=False)]
        return any(_is_longer(self.reference, one, side, other) for one, other in pairs if one and other)


def _first_value(side: ClientStep, tensors: Sequence[int]) -> Any:
    """What the first of these held when it was computed first; None if that is not known."""
    taken = side.taken(tensors[0]) if tensors else []
    return taken[0].array.numpy() if taken else None


def _first(watched: WatchedStep) -> WatchedStep:
    """The first replica of a reference alone, without what puts several together: with a single one nothing does."""
    ops, gathered = [], set[int]()
    for op in watched.ops:
        if op.zone == OUTER and any(tensor in gathered for tensor in op.inputs):
            gathered.update(op.outputs)
            continue
        if op.zone == REPLICA:
            gathered.update(op.outputs)
        if op.zone != REPLICA or op.index == 0:
            ops.append(op)
    return msgspec.structs.replace(watched, ops=tuple(ops))


def _is_longer(reference: ClientStep, truth: int, side: ClientStep, tensor: int) -> bool:
    theirs, ours = reference.taken(truth)[:1], side.taken(tensor)[:1]
    shapes = [each.shape or tuple(each.array.shape) for each in (*theirs, *ours)]
    return len(shapes) > 1 and shapes[0] != shapes[1]
