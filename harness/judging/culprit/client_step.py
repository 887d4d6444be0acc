"""What one client has left of a watched step, put in order: operations by where they were made, values by tensor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, Any

from harness.evidence.sketch import sketch
from harness.evidence.trace import is_statistics
from harness.evidence.watched_step import OUTER, Frame, Op, TensorValue, WatchedStep, form_of

if TYPE_CHECKING:
    import numpy as np


_ASSIGNS = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter")
TAPE = "gradient_tape/"
_UNPACKING = ("Identity", "IdentityN", "Reshape", "Slice", "Split", "SplitV", "StridedSlice", "Unpack")
ARRIVED = ("Input", "Placeholder")
"""What is in a graph and was made elsewhere."""

_NEARLY = 1e-4
"""As a share of the largest number: what threads that take turns make of a sum is far less."""

_FLOATS = ("float32", "float64")
_Group = tuple[str, tuple[tuple[str, int, str], ...]]


class ClientStep:
    """One client's operations and values.

    Args:
        watched: the client's.
        asked: takes the numbers of operations of which a value was asked for that was not looked at.
    """

    def __init__(self, watched: WatchedStep, asked: set[int] | None = None) -> None:
        self.watched = watched
        self._asked: set[int] = set() if asked is None else asked
        self._unseen = {op.number: op for op in watched.ops if not op.seen}
        self.by_number = {op.number: op for op in watched.ops}
        self._producers = {tensor: op for op in watched.ops for tensor in op.outputs}
        self._taken: dict[int, list[TensorValue]] = defaultdict(list)
        for value in watched.values:
            self._taken[value.tensor].append(value)
        self._ran = {op.graph for op in watched.ops if any(tensor in self._taken for tensor in op.outputs)}
        self._arrays: dict[int, list[np.ndarray[Any, Any]]] = {}
        self._groups: dict[tuple[str, int], dict[_Group, list[Op]]] = {}
        self._named: dict[tuple[str, int], dict[str, Op]] = {}

    def producer(self, tensor: int) -> Op | None:
        """The operation that gave a tensor."""
        return self._producers.get(tensor)

    def is_changed_before(self, read: Op) -> bool:
        """Whether an operation of the step changes a variable that another one reads afterwards."""
        earlier = (op for op in self.by_number.values() if op.number < read.number)
        return any(assigns(op) and op.variable == read.variable for op in earlier)

    def taken(self, tensor: int) -> list[TensorValue]:
        """What a tensor held, as often as it was computed."""
        if (op := self._producers.get(tensor)) is not None and op.number in self._unseen:
            self._asked.add(op.number)
        return self._taken.get(tensor, [])

    def dtype(self, tensor: int) -> str:
        """The dtype of a tensor, as far as it is known without a look at what it held; else empty."""
        op = self._producers.get(tensor)
        form = op.forms[op.outputs.index(tensor)] if op is not None and op.forms else ""
        return form.partition("[")[0] or next((taken.array.dtype for taken in self._taken.get(tensor, ())), "")

    def ask(self, form: str, begin: int = 0, end: int | None = None) -> None:
        """Ask for all that may hold a value of a form and was not looked at, of operations between two numbers."""
        for number, op in self._unseen.items():
            if begin <= number and (end is None or number < end) and op.type != "Const" and {form, ""} & {*op.forms}:
                self._asked.add(number)

    def values(self, tensor: int, *, sketched: bool = False) -> list[np.ndarray[Any, Any]]:
        """The same as arrays; all as sketches if some other one, with more rows, was kept as such."""
        if tensor not in self._arrays:
            self._arrays[tensor] = [each.array.numpy() for each in self.taken(tensor)]
        if sketched and not self.is_sketched(tensor):
            return [sketch(value) if value.ndim > 1 else value for value in self._arrays[tensor]]
        return self._arrays[tensor]

    def near(self, value: np.ndarray[Any, Any], shape: tuple[int, ...] | None = None) -> list[int]:
        """The tensors that held nearly a value, in the order of their operations; none of a whole number, which others
        hold by accident. With a `shape` it is the sketch of one of this shape.
        """
        import numpy as np

        if value.dtype.kind != "f" or np.all(value == np.round(value)):
            return []
        self.ask(form_of(value.dtype.name, shape or value.shape))
        off = _NEARLY * float(np.max(np.abs(value)))
        return [
            tensor
            for op in self.watched.ops
            for tensor in op.outputs
            for taken in self._taken.get(tensor, ())
            if taken.shape == shape and tuple(taken.array.shape) == value.shape and taken.array.dtype in _FLOATS
            if np.all(np.abs(taken.array.numpy() - value) <= off)
        ]

    def is_sketched(self, tensor: int) -> bool:
        """Whether sketches were kept of it."""
        return any(each.shape is not None for each in self.taken(tensor))

    def row(self, tensor: int) -> tuple[int, ...]:
        """The shape of its rows; of a list of numbers, which is sketched as one row, its own."""
        shape = next((tuple(each.shape or each.array.shape) for each in self.taken(tensor)), ())
        return shape[1:] if len(shape) > 1 else shape

    def frames(self, op: Op) -> tuple[Frame, ...]:
        """The lines that an operation belongs to, outermost first."""
        return tuple(self.watched.frames[number] for number in op.frames)

    def caller(self, op: Op) -> Frame | None:
        """The innermost line of the program's own that made an operation."""
        return None if op.caller is None else self.watched.frames[op.caller]

    def among(self, op: Op) -> tuple[int, int]:
        """Which one an operation is, from 0, of how many of its type that its line has made, in the same graph."""

        def place(other: Op) -> tuple[Any, ...]:
            return other.type, other.zone, other.index, other.frames, other.graph, other.differentiates

        there = [each.number for each in self.watched.ops if place(each) == place(op)]
        return there.index(op.number), len(there)

    def maker(self, op: Op) -> tuple[str, Frame] | None:
        """The variable that is read, or the layer or optimizer of a library that an operation belongs to, and the line
        that made it.
        """
        if op.type == "ReadVariableOp":
            makers = {seen.name: seen.made for seen in self.watched.variables}
            made = makers.get(op.variable)
            return None if made is None else (op.variable, self.watched.frames[made])
        frames = self.frames(op)
        if not frames or frames[-1].own or (assigns(op) and not is_statistics(op.variable)):
            return None  # code of the program's own, or what it has asked an optimizer for
        for scope in reversed(op.name.split("/")[:-1]):
            # A layer that is called a second time has a number behind its name.
            for name in (scope, scope.rpartition("_")[0]):
                if name in self.watched.made:
                    return name, self.watched.frames[self.watched.made[name]]
        return None

    def assigning(self) -> list[Op]:
        """The operations that changed variables in the step, in the order in which they were made."""
        return [op for op in self.watched.ops if assigns(op) and self.ran(op)]

    def ran(self, op: Op) -> bool:
        """Whether it was carried out in the step, as far as can be seen."""
        tensors = op.outputs or op.inputs
        if any(tensor in self._taken for tensor in tensors):
            return True
        # All of a graph is carried out or nothing.
        made = [self._producers[tensor] for tensor in tensors if tensor in self._producers]
        return op.graph in self._ran and any(each.number in self._unseen for each in made)

    @cached_property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Every replica and copy, and what is outside of them."""
        return tuple(sorted({(op.zone, op.index) for op in self.watched.ops}))

    def forward_of(self, op: Op) -> Op | None:
        """The operation of whose gradient another one is a part; None where that cannot be told.

        A gradient is made by whoever asks for it, which in Keras's `fit` is Keras: the line to mend is the
        differentiated operation's. TensorFlow names what it makes for the gradient of `loss/truediv`
        `gradient_tape/loss/truediv/...`, by the scope that this has opened. Of one that opens none, such as `Mean`, the
        gradient stands in the scope around it, where it may bear the name of another one, which is not taken for it.
        """
        if TAPE not in op.name:
            return None
        named = self._forwards(op.zone, op.index)
        scope = op.name.replace(TAPE, "").rpartition("/")[0]
        while scope and scope not in named:
            scope = scope.rpartition("/")[0]
        return named.get(scope) if scope else None

    def averages(self, op: Op) -> bool:
        """Whether a sum over replicas is divided by their number at the same line, as `ReduceOp.MEAN` does."""
        divisions = (user for user in self._users(op) if user.type == "RealDiv")
        divisors = [value for user in divisions for value in self.values(user.inputs[1]) if not value.shape]
        return any(value == self.watched.replicas for value in divisors)

    def is_within_gradient(self, op: Op) -> bool:
        """Whether a tape goes on with what comes out of a sum over replicas, as of one that it differentiates."""
        return any(user.differentiates for user in self._users(op))

    def _users(self, op: Op) -> Iterator[Op]:
        """What uses a sum at the same line: gradients are packed for it, and taken apart afterwards."""
        reached = {*op.outputs}
        for user in self.watched.ops[op.number :]:
            if user.caller == op.caller and reached & {*user.inputs}:
                yield user
                reached |= {*user.outputs} if user.type in _UNPACKING else set()

    def _forwards(self, zone: str, index: int) -> dict[str, Op]:
        """By their names the operations of a place that compute no gradients."""
        if (zone, index) not in self._named:
            self._named[zone, index] = {op.name: op for op in self._in(zone, index) if not op.differentiates}
        return self._named[zone, index]

    def groups(self, zone: str, index: int) -> dict[_Group, list[Op]]:
        """The operations that ran in a place by the lines that they belong to, in the order in which they were made."""
        if (known := self._groups.get((zone, index))) is not None:
            return known
        found = self._groups[zone, index] = defaultdict(list)
        for op in self._in(zone, index):
            found[zone, lines_of(self, op)].append(op)
        return found

    @cached_property
    def _by_place(self) -> dict[tuple[str, int], list[Op]]:
        found: dict[tuple[str, int], list[Op]] = defaultdict(list)
        for op in self.watched.ops:
            # A function that calls the replicas has an argument for each of them, where the reference's has one.
            if self.ran(op) and not (op.zone == OUTER and op.type == "Placeholder"):
                found[op.zone, op.index].append(op)
        return found

    def _in(self, zone: str, index: int) -> list[Op]:
        return self._by_place[zone, index]

    @cached_property
    def by_digest(self) -> dict[int, list[int]]:
        """Tensors by what they held, in the order of their operations."""
        found: dict[int, list[int]] = defaultdict(list)
        for op in self.watched.ops:
            for tensor in op.outputs:
                for digest in dict.fromkeys(each.digest for each in self._taken.get(tensor, ())):
                    found[digest].append(tensor)
        return found


def lines_of(side: ClientStep, op: Op) -> tuple[tuple[str, int, str], ...]:
    """The lines that an operation belongs to, outermost first, as they are the same in every process."""
    return tuple((frame.file, frame.line, frame.function) for frame in side.frames(op))


def assigns(op: Op) -> bool:
    """Whether an operation changes a variable."""
    return bool(op.variable) and op.type.startswith(_ASSIGNS)


def matched(reference: ClientStep, side: ClientStep, zone: str, index: int) -> dict[int, int]:
    """Which operation of a place is which of the reference's, by their numbers: the reference's first.

    A tape differentiates in an order that follows from all that was made. What it makes for one operation belongs to
    what it makes for the same one in the reference.
    """
    theirs = reference.groups(zone, 0)
    found: dict[int, int] = {}
    for group, ops in side.groups(zone, index).items():
        there = theirs.get(group, ())
        found.update(_numbers(*(_of_tape(each, gradients=False) for each in (there, ops))))
    numbers, same = {own: number for number, own in found.items()}, {number: number for number in found}
    for group, ops in side.groups(zone, index).items():
        made, own = (_of_tape(each, gradients=True) for each in (theirs.get(group, ()), ops))
        if [op.type for op in made] == [op.type for op in own]:
            found.update(_numbers(made, own))
            continue
        by_forward = _by_forward(reference, made, same)
        for forward, each in _by_forward(side, own, numbers).items():
            found.update(_numbers(by_forward.get(forward, ()), each))
    return found


def _of_tape(ops: Sequence[Op], *, gradients: bool) -> list[Op]:
    return [op for op in ops if op.differentiates is gradients]


def _numbers(theirs: Sequence[Op], ours: Sequence[Op]) -> Iterator[tuple[int, int]]:
    return ((one.number, other.number) for one, other in _in_order(theirs, ours))


def _by_forward(side: ClientStep, ops: Sequence[Op], numbers: Mapping[int, int]) -> dict[int | None, list[Op]]:
    """Gradients by the number that the operation has here which they are of, without those of one that has none."""
    found: dict[int | None, list[Op]] = defaultdict(list)
    for op in ops:
        forward = side.forward_of(op)
        if forward is None or forward.number in numbers:
            found[None if forward is None else numbers[forward.number]].append(op)
    return found


def _in_order(theirs: Sequence[Op], ours: Sequence[Op]) -> list[tuple[Op, Op]]:
    """Pairs of operations of one place in the program, by their types and the order in which they were made."""
    types, wanted = [op.type for op in ours], [op.type for op in theirs]
    if types == wanted:
        return list(zip(theirs, ours, strict=True))
    (made, arrived), (own, own_arrived) = _by_arrival(theirs), _by_arrival(ours)
    if [op.type for op in made] == [op.type for op in own]:  # where noise is added, a value seems to arrive
        both = [place for place, there in arrived.items() if len(there) == len(own_arrived.get(place, ()))]
        pairs = [pair for place in both for pair in zip(arrived[place], own_arrived[place], strict=True)]
        return [*zip(made, own, strict=True), *pairs]
    blocks = SequenceMatcher(None, wanted, types, autojunk=False).get_matching_blocks()
    return [(theirs[block.a + i], ours[block.b + i]) for block in blocks for i in range(block.size)]


def _by_arrival(ops: Sequence[Op]) -> tuple[list[Op], dict[int, list[Op]]]:
    """Those that compute, and by how many of them come before those that only say that a value arrives."""
    made: list[Op] = []
    arrived: dict[int, list[Op]] = defaultdict(list)
    for op in ops:
        (arrived[len(made)] if op.type in ARRIVED else made).append(op)
    return made, arrived
