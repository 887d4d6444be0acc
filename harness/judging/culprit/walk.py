"""Back from a wrong value to the operation that made it wrong: whose operands are right and whose result is not.

Two kinds of wrong are followed, each by itself. Where a value stands in no relation to the reference's, back through
values without relation: a mean over a replica's own examples which is multiplied out later is none of them. Where it is
the reference's times a power of the number of replicas, back through values that are: to where the factor came in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from harness.evidence.watched import Op
from harness.judging.culprit.aligned import Aligned, Node
from harness.judging.culprit.relations import REPLICATED, Relation

__all__ = ["Broken", "Mode", "Walk", "assigns"]

_ASSIGNS = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter", "ScatterNd")

# What adds up values of replicas, which the reference does not do.
_SUMS = ("CollectiveReduce", "NcclAllReduce", "AddN", "Add")


class Mode(Enum):
    """What kind of wrong is followed."""

    UNRELATED = "unrelated"
    SCALED = "scaled"


class Status(Enum):
    """What is known of a value."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Broken:
    """Where it went wrong: an operation of the run, the mode that led to it, and a sum over replicas on the way."""

    node: Node
    mode: Mode
    summed: Node | None = None


def assigns(op: Op) -> bool:
    """Whether an operation changes a variable."""
    return op.type.startswith(_ASSIGNS) and bool(op.variable)


class Walk:
    """Walks back in one client's operations, whose values are related to the reference's with those of all clients.

    Args:
        aligned: run and reference.
        client: in whose operations.
        mode: what is followed.
    """

    def __init__(self, aligned: Aligned, client: int, mode: Mode) -> None:
        self._aligned = aligned
        self._client = client
        self._side = aligned.sides[client]
        self._mode = mode
        self._told: dict[int, Status] = {}
        self._sums: set[int] = set()

    def sources(self, tensors: Iterable[int]) -> list[Node]:
        """The operations that made any of these wrong, in the order in which Python made them."""
        operands: dict[int, list[int]] = {}
        pending = [tensor for tensor in tensors if tensor]
        starts = list(pending)
        while pending:
            tensor = pending.pop()
            if tensor not in operands and self.status(tensor) is not Status.RIGHT:
                operands[tensor] = self._operands(tensor)
                pending += operands[tensor]
        found: dict[int, frozenset[int]] = {}
        # Whatever an operation is given was made before it.
        for tensor in sorted(operands, key=self._when):
            found[tensor] = frozenset[int]().union(*(found.get(each, frozenset()) for each in operands[tensor]))
            if not found[tensor] and self.status(tensor) is Status.WRONG:
                found[tensor] = frozenset({self._when(tensor)})
        numbers = frozenset[int]().union(*(found.get(start, frozenset()) for start in starts))
        return [Node(self._client, number) for number in sorted(numbers)]

    @property
    def summed(self) -> Node | None:
        """The first sum over replicas that any way back has passed."""
        return Node(self._client, min(self._sums)) if self._sums else None

    def _when(self, tensor: int) -> int:
        op = self._side.producer(tensor)
        return 0 if op is None else op.number

    def _operands(self, tensor: int) -> list[int]:
        op = self._side.producer(tensor)
        if op is None:
            return []
        if op.type.startswith(_SUMS) and Node(self._client, op.number) not in self._aligned.truths:
            self._sums.add(op.number)
        if op.type in ("Input", "Placeholder"):
            return self._origin(tensor, op)
        self._tell(op)
        return [each for each in op.inputs if each]

    def _origin(self, tensor: int, op: Op) -> list[int]:
        """Where a value came from that arrived from another graph: who held the same before, the nearest one."""
        for taken in self._side.taken(tensor):
            if not taken.array.shape and float(abs(taken.array.numpy())).is_integer():
                continue  # of such a number there may be many by accident
            for same in reversed(self._side.by_digest.get(taken.digest, ())):
                made = self._side.producer(same)
                if same != tensor and made and made.number < op.number and made.type not in ("Input", "Const"):
                    return [same]
        return []

    def status(self, tensor: int) -> Status:
        """What is known of a tensor of this client."""
        if tensor not in self._told:
            self._told[tensor] = self._status(tensor)
        return self._told[tensor]

    def _status(self, tensor: int) -> Status:
        op = self._side.producer(tensor)
        if op is None or (truth := self._aligned.truths.get(Node(self._client, op.number))) is None:
            return Status.UNKNOWN
        position = op.outputs.index(tensor)
        if position >= len(self._aligned.reference.by_number[truth].outputs):
            return Status.UNKNOWN
        return self._judged(self._aligned.output(truth, position), op)

    def _tell(self, op: Op) -> None:
        """Let operands be known by how they are related to those of the reference's operation."""
        number = self._aligned.truths.get(Node(self._client, op.number))
        if number is None:
            return
        theirs = self._aligned.reference.by_number[number]
        nodes = self._aligned.counterparts[number]
        if any(len(self._aligned.op(node).inputs) != len(theirs.inputs) for node in nodes):
            return
        for position, tensor in enumerate(op.inputs):
            if not tensor or not theirs.inputs[position] or self.status(tensor) is not Status.UNKNOWN:
                continue
            given = [(node.client, self._aligned.op(node).inputs[position]) for node in nodes]
            if all(number for _, number in given):
                made = self._side.producer(tensor)
                self._told[tensor] = self._judged(self._aligned.related(theirs.inputs[position], given), made)

    def _judged(self, relations: frozenset[Relation] | None, op: Op | None) -> Status:
        if relations is None:
            return Status.UNKNOWN
        if op is not None and _is_neutral(op, relations):
            return Status.RIGHT
        if self._mode is Mode.UNRELATED:
            return Status.RIGHT if relations else Status.WRONG
        if any(relation.right for relation in relations) or not relations:
            return Status.RIGHT
        return Status.WRONG


def _is_neutral(op: Op, relations: frozenset[Relation]) -> bool:
    """Whether a value is rightly another one in each program: a constant, or whole numbers such as shapes."""
    return op.type in ("Const", "Shape", "ShapeN", "Size", "Rank", "Range", "StridedSlice", "Pack", "ConcatV2") and (
        op.type == "Const" or not relations
    )


def sinks(aligned: Aligned) -> Iterator[tuple[Node, Mode, list[int]]]:
    """Assignments that give a variable what it does not have in the reference: how that is wrong, and of what."""
    for number, nodes in sorted(aligned.counterparts.items()):
        theirs = aligned.reference.by_number[number]
        if not assigns(theirs):
            continue
        for position, truth in enumerate(theirs.inputs):
            given = [(node.client, aligned.op(node).inputs) for node in nodes]
            if not truth or any(position >= len(inputs) or not inputs[position] for _, inputs in given):
                continue
            relations = aligned.related(truth, [(client, inputs[position]) for client, inputs in given])
            if (
                relations is None
                or (mode := _wrong(relations, aligned.kinds.get(aligned.op(nodes[0]).variable))) is None
            ):
                continue
            yield nodes[0], mode, [given[0][1][position]]


def _wrong(relations: frozenset[Relation], kind: str | None) -> Mode | None:
    if kind == "on_read":
        return None if relations else Mode.UNRELATED
    same = {relation for relation in relations if relation.kind == REPLICATED}
    if Relation(REPLICATED) in same:
        return None
    if same or (relations and not any(relation.right for relation in relations)):
        return Mode.SCALED
    return Mode.UNRELATED
