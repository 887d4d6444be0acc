"""Back from a wrong value to the operation that made it wrong: whose operands are right and whose result is not.

Two kinds of wrong are followed, each by itself. Where a value stands in no relation to the reference's, back through
values without relation: a mean over a replica's own examples which is multiplied out later is none of them. Where it is
the reference's times a power of the number of replicas, back through values that are: to where the factor came in.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from harness.evidence.trace import is_statistics
from harness.evidence.watched_step import APART, BATCHES, SHARD, UPDATE, Op, WatchedVariable, form_of
from harness.judging.culprit.alignment import Alignment, OperationNode
from harness.judging.culprit.client_step import ARRIVED, assigns
from harness.judging.culprit.relations import LARGEST, PARTIAL, REPLICATED, SMALLEST, SPLIT, Relation

# What adds up values of replicas, which the reference does not do.
_SUMS = ("CollectiveReduce", "NcclAllReduce", "AddN", "Add")

# Examples, whose sameness is judged by itself.
EXAMPLES = ("Iterator", "Optional", "MultiDevice")
# What is rightly another one in each program.
_GIVEN_APART = ("Const", *EXAMPLES)
# What carries out functions, in which the operations are that give the result.
BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")
CALLS = (*BRANCHES, "While", "StatelessWhile", "PartitionedCall", "StatefulPartitionedCall", "__")
_SHAPES = ("Shape", "ShapeN", "Size", "Rank", "BroadcastGradientArgs")


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
class WrongOperation:
    """Where it went wrong.

    Attributes:
        node: an operation of the run.
        mode: that led to it.
        summed: a sum over replicas on the way.
        term: of a gradient that is wrong in a sum, the differentiated operation whose part of it is to blame.
        division: by the number of replicas, of what the operation uses undivided.
        apart: whether that division is of another way than the operation's.
        rows: whether it is computed of rows of a sparse gradient, before those of one index are added up.
    """

    node: OperationNode
    mode: Mode
    summed: OperationNode | None = None
    term: OperationNode | None = None
    division: OperationNode | None = None
    apart: bool = False
    rows: bool = False


@dataclass(frozen=True, order=True)
class WantedTensor:
    """A value on the way back: a tensor, and whether all replicas should have the whole of it if they have the same.

    They should where it becomes a variable; elsewhere parts may well be equal.
    """

    tensor: int
    whole: bool


class Walk:
    """Walks back in one client's operations, whose values are related to the reference's with those of all clients.

    Args:
        aligned: run and reference.
        client: in whose operations.
        mode: what is followed.

    Attributes:
        side: that client.
        summed: the first sum over replicas that any way back has passed.
        divided: tensors that are multiples, and that the program divides later: they count as right.
    """

    def __init__(self, aligned: Alignment, client: int, mode: Mode) -> None:
        self._aligned = aligned
        self._client = client
        self.side = aligned.sides[client]
        self._mode = mode
        self._facts: dict[int, frozenset[Relation] | None] = {}
        self._counting: dict[int, bool] = {}
        self._averaged = False
        self._powers: set[int] = set()
        self.summed: OperationNode | None = None
        self.divided: Container[int] = ()

    @property
    def averages(self) -> bool:
        """Whether that sum is divided by the number of replicas."""
        return self.summed is not None and self.side.averages(self._aligned.op(self.summed))

    def sources(self, starts: Sequence[WantedTensor], *, averaged: bool = False) -> list[OperationNode]:
        """The operations that made any of these wrong, in the order in which Python made them.

        Of parts that are averaged afterwards each is right if it has the whole of what it has alone.
        """
        self._averaged = averaged
        self._powers = {power for start in starts for power in _powers(self.facts(start.tensor) or ())}
        operands: dict[WantedTensor, list[WantedTensor]] = {}
        begin = [start for start in starts if start.tensor]
        pending = list(begin)
        while pending:
            wanted = pending.pop()
            if wanted not in operands and self._status(wanted) is not Status.RIGHT:
                operands[wanted] = self._operands(wanted)
                pending += operands[wanted]
        found: dict[WantedTensor, frozenset[int]] = {}
        # Whatever an operation is given was made before it.
        for wanted in sorted(operands, key=lambda each: self._when(each.tensor)):
            found[wanted] = frozenset[int]().union(*(found.get(each, frozenset()) for each in operands[wanted]))
            if not found[wanted] and self._status(wanted) is Status.WRONG:
                found[wanted] = frozenset({self.blamed(wanted.tensor)})
        numbers = frozenset[int]().union(*(found.get(start, frozenset()) for start in begin))
        return [OperationNode(self._client, number) for number in sorted(numbers)]

    def blamed(self, tensor: int) -> int:
        """The operation that made a tensor wrong; of several that only the run has, the sum over replicas."""
        made = self.side.producer(tensor)
        op = made = None if made is None else self.last_change(made)
        while op is not None and not self._is_aligned(op):
            if self._is_sum(op):
                return op.number
            producers = [each for tensor in op.inputs if (each := self.side.producer(tensor)) and each.type != "Const"]
            op = producers[0] if producers else None
        return 0 if made is None else made.number

    def _is_aligned(self, op: Op) -> bool:
        return OperationNode(self._client, op.number) in self._aligned.truths

    def _is_sum(self, op: Op) -> bool:
        return op.type.startswith(_SUMS) and not self._is_aligned(op)

    def _when(self, tensor: int) -> int:
        op = self.side.producer(tensor)
        return 0 if op is None else op.number

    def _operands(self, wanted: WantedTensor) -> list[WantedTensor]:
        op = self.side.producer(wanted.tensor)
        if op is None:
            return []
        if self._is_sum(op) and (self.summed is None or op.number < self.summed.number):
            self.summed = OperationNode(self._client, op.number)
        if op.type in ARRIVED:
            return [replace(wanted, tensor=each) for each in self._origin(wanted.tensor, op)]
        if op.type.startswith(CALLS) and (inside := self._origin(wanted.tensor, op)):
            return [replace(wanted, tensor=each) for each in inside]
        op = self.last_change(op)
        self.tell(op)
        return [replace(wanted, tensor=each) for each in op.inputs if each]

    def last_change(self, read: Op) -> Op:
        """What changed a variable last before it was read in the step: there, or where replicas update it together.

        If nothing has, or the operation reads no variable, it is the operation itself.
        """
        if read.type != "ReadVariableOp":
            return read
        for op in reversed(self.side.watched.ops[: read.number - 1]):
            if op.variable == read.variable and assigns(op) and _changes_copy(op, read) and self.side.ran(op):
                return op
        return read

    def _origin(self, tensor: int, op: Op) -> list[int]:
        """Where a value came from that arrived from another graph: who held the same before, the nearest one."""
        for taken in self.side.taken(tensor):
            if not taken.array.shape and float(abs(taken.array.numpy())).is_integer():
                continue  # of such a number there may be many by accident
            self.side.ask(form_of(taken.array.dtype, taken.shape or tuple(taken.array.shape)), end=op.number)
            held: Sequence[int] = self.side.by_digest.get(taken.digest, ())
            if len(held) < 2 and self.side.watched.runs > 1:
                held = self.side.near(taken.array.numpy(), taken.shape)
            for same in reversed(held):
                made = self.side.producer(same)
                if same != tensor and made and made.number < op.number and made.type not in ("Input", "Const"):
                    return [same]
        return []

    def facts(self, tensor: int) -> frozenset[Relation] | None:
        """How a tensor of this client is related to the reference's, None if that is not known."""
        if tensor not in self._facts:
            self._facts[tensor] = self._of_output(tensor)
        return self._facts[tensor]

    def _of_output(self, tensor: int) -> frozenset[Relation] | None:
        op = self.side.producer(tensor)
        if op is None or (truth := self._aligned.truths.get(OperationNode(self._client, op.number))) is None:
            return None
        position = op.outputs.index(tensor)
        if position >= len(self._aligned.reference.by_number[truth].outputs):
            return None
        return self._aligned.output(truth, position)

    def tell(self, op: Op) -> None:
        """Let operands be known by how they are related to those of the reference's operation."""
        number = self._aligned.truths.get(OperationNode(self._client, op.number))
        if number is None:
            return
        theirs = self._aligned.reference.by_number[number]
        nodes = self._aligned.counterparts[number]
        if any(len(self._aligned.op(node).inputs) != len(theirs.inputs) for node in nodes):
            return
        for position, tensor in enumerate(op.inputs):
            if not tensor or not theirs.inputs[position] or self.facts(tensor) is not None:
                continue
            given = [(node.client, self._aligned.op(node).inputs[position]) for node in nodes]
            if all(each for _, each in given):
                self._facts[tensor] = self._aligned.related(theirs.inputs[position], given)

    def _status(self, wanted: WantedTensor) -> Status:
        relations = self.facts(wanted.tensor)
        if relations is None:
            return Status.UNKNOWN
        op = self.side.producer(wanted.tensor)
        if op is not None and (op.type.startswith(_GIVEN_APART) or (not relations and self._counts(wanted.tensor))):
            return Status.RIGHT
        if self._mode is Mode.UNRELATED:
            accident = is_extreme(relations) and self.first_extreme(wanted.tensor) is None
            return Status.RIGHT if relations and not accident else Status.WRONG
        if wanted.tensor in self.divided:
            return Status.RIGHT
        multiple = is_multiple(relations, wanted.whole, averaged=self._averaged)
        return Status.WRONG if multiple and not self._is_opposite(relations) else Status.RIGHT

    def is_multiple_of_right(self, tensor: int) -> bool:
        """Whether a value is known to be too large or too small by a power of the replicas' number."""
        return is_multiple(self.facts(tensor) or frozenset(), whole=True)

    def multiples_before(self, tensor: int) -> set[int]:
        """A tensor and those that it comes of and that are multiples as it is."""
        found, pending = set[int](), [WantedTensor(tensor, whole=True)]
        seen = set(pending)
        while pending:
            wanted = pending.pop()
            if self._status(wanted) is not Status.RIGHT:
                found.add(wanted.tensor)
                operands = [each for each in self._operands(wanted) if each not in seen]
                pending += operands
                seen.update(operands)
        return found

    def _is_opposite(self, relations: frozenset[Relation]) -> bool:
        """Whether a value is too large and what comes of it too small, or the other way round: that is another mistake,
        or is to be mended by the one that goes too far.
        """
        powers = _powers(relations)
        if not powers or not self._powers:
            return False
        return max(self._powers) < 0 < min(powers) or max(powers) < 0 < min(self._powers)

    def _counts(self, tensor: int) -> bool:
        """Whether it holds whole numbers that follow from shapes and constants only."""
        if tensor not in self._counting:
            self._counting[tensor] = False  # for what goes in a circle, until it is known
            op = self.side.producer(tensor)
            whole = any(value.dtype.kind in "iu" for value in self.side.values(tensor))
            known = op is None or op.type in _SHAPES or all(map(self._counts, filter(None, op.inputs)))
            self._counting[tensor] = whole and known
        return self._counting[tensor]

    def is_behind_a_sum(self, tensor: int) -> bool:
        """Whether a sum over replicas takes part in a value, as in everything from which variables are updated."""
        return self._is_behind(tensor, lambda op: self._is_sum(op) or op.zone == UPDATE)

    def is_behind_a_gradient(self, tensor: int) -> bool:
        """Whether a gradient takes part in a value."""
        return self._is_behind(tensor, lambda op: op.differentiates)

    def is_differentiated(self, number: int) -> bool:
        """Whether an operation takes part in a value of which a gradient is taken."""
        targets = self.side.watched.targets
        return any(self._is_behind(target, lambda op: op.number == number) for target in targets)

    def _is_behind(self, tensor: int, wanted: Callable[[Op], bool]) -> bool:
        pending, seen = [tensor], {tensor}
        while pending:
            op = self.side.producer(pending.pop())
            if op is None:
                continue
            if wanted(op):
                return True
            op = self.last_change(op)
            pending += [each for each in op.inputs if each not in seen]
            seen.update(op.inputs)
        return False

    def aligned_before(self, node: OperationNode) -> list[int]:
        """The tensors that an operation computes from, as far back as those that the reference has too."""
        pending, found, seen = list(self._aligned.op(node).inputs), list[int](), set[int]()
        while pending:
            tensor = pending.pop(0)
            op = self.side.producer(tensor)
            if op is None or op.type == "Const" or tensor in seen:
                continue
            seen.add(tensor)
            if self._is_aligned(op):
                found.append(tensor)
            elif op.type.startswith(CALLS):  # what it gives need not be what it is given
                pending += self._origin(tensor, op)
            else:
                pending += op.inputs
        return found

    def first_extreme(self, tensor: int) -> OperationNode | None:
        """Where a value came from that is a part of which the largest, or the smallest, counts: of rows of examples.

        Of few numbers, such as signs, one may be the smallest by accident.
        """
        found, rows = None, False
        while (op := self.side.producer(tensor)) is not None and is_extreme(self.facts(tensor) or frozenset()):
            found = OperationNode(self._client, op.number)
            self.tell(op)
            rows = any(each.kind == SPLIT for tensor in op.inputs for each in self.facts(tensor) or ())
            tensor = next((each for each in op.inputs if is_extreme(self.facts(each) or frozenset())), 0)
        return found if rows else None


def _powers(relations: Iterable[Relation]) -> set[int]:
    """By what powers of the replicas' number a value is too large: where all have the same, this is what is meant."""
    same = {each.power for each in relations if each.kind == REPLICATED}
    return same or {each.power for each in relations}


def _changes_copy(change: Op, read: Op) -> bool:
    """Whether a change of a variable is one of the copy, or of the shard, that is read."""
    if APART in (change.zone, read.zone):
        return change.index == read.index
    there = (change.zone, change.index) == (read.zone, read.index)
    return there or (read.zone != UPDATE and change.zone == UPDATE)


def is_extreme(relations: frozenset[Relation]) -> bool:
    """Whether nothing else is known of a value than that the largest or the smallest part is the reference's."""
    return bool(relations) and all(each.kind in (LARGEST, SMALLEST) for each in relations)


def is_multiple(relations: frozenset[Relation], whole: bool, *, averaged: bool = False) -> bool:
    """Whether a value is only right but for a power of the number of replicas.

    Args:
        relations: that hold of it.
        whole: whether all replicas should have the whole of it.
        averaged: whether parts are averaged later.
    """
    same = [relation for relation in relations if relation.kind == REPLICATED]
    if whole and same:
        return not any(relation.right for relation in same)
    return bool(relations) and not has_right_size(relations, averaged=averaged)


def has_right_size(relations: Iterable[Relation], *, averaged: bool) -> bool:
    """Whether nothing is multiplied; what is averaged later is no share of what all have, nor has to be a part.

    A mean of a replica's own examples is larger than its part of the sum, by the number of replicas.
    """
    same = [each for each in relations if each.kind == REPLICATED]
    if not averaged:
        return any(each.right for each in relations)
    return any(each.right for each in same or relations) or (not same and Relation(PARTIAL, 1) in relations)


def sinks(aligned: Alignment, *, on_read: bool = True) -> Iterator[tuple[OperationNode, Mode, WantedTensor]]:
    """Assignments that give a variable what it does not have in the reference: how that is wrong, and of what.

    Args:
        aligned: run and reference.
        on_read: whether variables count of which each replica keeps its own until somebody reads them.
    """
    by_batches = any(op.type == BATCHES for op in aligned.reference.watched.ops)
    for theirs in aligned.reference.assigning():
        nodes = aligned.counterparts.get(theirs.number, ())
        if not nodes or (by_batches and is_statistics(theirs.variable)):  # of which each replica has its own
            continue
        variable = aligned.variables.get(aligned.op(nodes[0]).variable)
        if not on_read and variable is not None and variable.kind == "on_read":
            continue
        for position, truth in enumerate(theirs.inputs):
            given = [(node.client, aligned.op(node).inputs) for node in nodes]
            if not truth or any(position >= len(inputs) or not inputs[position] for _, inputs in given):
                continue
            relations = aligned.related(truth, [(client, inputs[position]) for client, inputs in given])
            if relations is not None and (mode := _wrong(relations, variable, shards=_of_shards(aligned, nodes))):
                yield (
                    nodes[0],
                    mode,
                    WantedTensor(given[0][1][position], whole=variable is None or variable.kind != "on_read"),
                )


# What each copy may be given of a variable that is averaged when it is read, or of which one copy stands for all. Where
# copies are summed, as of metrics, strategies divide what is given to all at once, so that nothing can be said.
_GIVEN = {
    "MEAN": {Relation(PARTIAL, 1), Relation(REPLICATED)},
    "ONLY_FIRST_REPLICA": {Relation(REPLICATED)},
    "NONE": {Relation(REPLICATED)},
}


def _of_shards(aligned: Alignment, nodes: Sequence[OperationNode]) -> bool:
    """Whether operations change the shards of a variable, each by its own rows."""
    return len(nodes) > 1 and aligned.op(nodes[0]).zone.startswith((SHARD, APART))


def _wrong(relations: frozenset[Relation], variable: WatchedVariable | None, *, shards: bool) -> Mode | None:
    if shards and any(each.right for each in relations):
        return None
    if variable is not None and variable.kind == "on_read":
        given = _GIVEN.get(variable.aggregation)
        if given is None or given & relations:
            return None
        return Mode.SCALED if relations else Mode.UNRELATED
    if Relation(REPLICATED) in relations:
        return None
    return Mode.SCALED if is_multiple(relations, whole=True) else Mode.UNRELATED
