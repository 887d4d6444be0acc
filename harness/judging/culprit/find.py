"""From a watched step and what was wrong in it to the culprit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.evidence.trace import Array, is_statistics
from harness.evidence.watch_request import WatchRequest
from harness.evidence.watched_step import APART, REPLICA, Frame, Op, WatchedStep, digest_of, form_of
from harness.judging.culprit.alignment import Alignment, OperationNode
from harness.judging.culprit.branch import only_some
from harness.judging.culprit.client_step import ClientStep, assigns
from harness.judging.culprit.example_order import other_examples
from harness.judging.culprit.kinds import REPORT, SHARED
from harness.judging.culprit.later_division import LaterDivisions
from harness.judging.culprit.protocol import Culprit, NoCulprit
from harness.judging.culprit.reasons import ADDITIONS, adds_to_one_copy
from harness.judging.culprit.relations import PARTIAL, REPLICATED, SPLIT, Relation
from harness.judging.culprit.repeated_rows import computed_of_rows
from harness.judging.culprit.sentences import told, told_of_report
from harness.judging.culprit.shards import ShardsAlignment, wholes_of
from harness.judging.culprit.walk import (
    CALLS,
    EXAMPLES,
    Mode,
    Walk,
    WantedTensor,
    WrongOperation,
    has_right_size,
    sinks,
)
from harness.judging.culprit.wholes import WholesAlignment

_BY_ELEMENTS = (
    *("Add", "AddV2", "Sub", "Mul", "RealDiv", "DivNoNan", "Square", "Sqrt", "Rsqrt", "Exp", "Log", "Pow", "Neg"),
    *("Relu", "Sigmoid", "Tanh", "Softplus", "Erf", "Cast", "Identity", "BiasAdd", "Conv2D"),
)
"""Of a product of matrices nobody knows whether the rows are summed that replicas have."""
_HERE = "that run was on this machine, so what is wrong may be so on the machines of the judged one alone"


@dataclass(frozen=True)
class WrongReport:
    """A value that was reported and is wrong; `whole` is false of one that each replica has a part of."""

    value: Array
    whole: bool = True


def find_culprit(
    clients: Sequence[WatchedStep],
    reference: WatchedStep,
    noisy: Sequence[WatchedStep],
    wrong: Sequence[WrongReport] = (),
    *,
    consistent: bool = False,
    elsewhere: bool = False,
    statistics: bool = False,
    wholes: bool = False,
    asked: WatchRequest | None = None,
) -> Culprit | NoCulprit:
    """The operation that made a watched step wrong, or why none is named.

    Args:
        clients: of the run.
        reference: the default strategy's.
        noisy: the same with noise.
        wrong: reported values that are wrong.
        consistent: whether nothing wrong was found. Then what each replica keeps for itself is as it should be: it was
            judged as it is read, or nobody reads it, such as the variance of a layer of which the mean is used.
        elsewhere: whether the run that was judged was on other machines than the watched one. Then no line is named of
            a run in which nothing of what was reported and is wrong has come up again.
        statistics: whether moving statistics of batch normalization are wrong.
        wholes: whether the reference has as many replicas as the run, of which each stands for a whole.
        asked: takes the operations that were not looked at and of which a value was asked for: as long as there are
            any, the answer may be another one once they are.
    """
    name = _in_shards(clients, reference)
    align = WholesAlignment if wholes else Alignment if name is None else ShardsAlignment
    aligned = align(clients, reference, noisy, asked=asked)
    if elsewhere and wrong and not any(_holding(aligned.sides[0], each.value) for each in wrong):
        return NoCulprit(f"nothing of what was reported and is wrong came up again in a run that was watched; {_HERE}")
    if not aligned.counterparts:
        return NoCulprit("no operation of the run was seen that the reference has too")
    if other_examples(aligned.entering):
        return NoCulprit("what the replicas were given, such as examples or a state, is not what one device was given")
    # In a loop, what goes wrong in one turn is wrong in all later ones; so the first turn is looked at by itself.
    first = align(clients, reference, noisy, turns=1, asked=asked)
    found = first_broken(first, wrong, on_read=not consistent)
    if found is not None and not _begins(first.op(found.node)):
        return _told(first, found)
    found = first_broken(aligned, wrong, on_read=not consistent)
    if found is None and (shared := _changed_by_each(aligned)) is not None:
        return told(aligned, WrongOperation(shared, Mode.UNRELATED))
    if found is None and statistics and (kept := _separate_statistics(aligned)) is not None:
        return told(aligned, WrongOperation(kept, Mode.UNRELATED))
    if found is None and (own := [each for each in wrong if _of_one_replica(aligned, each)]):
        line = _taken_apart_at(aligned.sides[0], [each.value for each in own])
        return NoCulprit(REPORT.says, kind=REPORT.code) if line is None else told_of_report(line, reference.step)
    if found is None:
        why = "no operation was found that is given what is right and gives what is wrong"
        why += "" if name is None else f"; variable {name!r} is in shards, which one device has whole"
        return NoCulprit(f"{why}; {_HERE}" if elsewhere else why)
    return _told(aligned, found)


def _in_shards(clients: Sequence[WatchedStep], reference: WatchedStep) -> str | None:
    """A variable that the reference has whole, and a coordinator's run in parts on parameter servers."""
    shards = wholes_of(clients[0], reference) if len(clients) == 1 else {}
    return next((whole for whole, _ in shards.values()), None)


def _told(aligned: Alignment, found: WrongOperation) -> Culprit | NoCulprit:
    """What is told of it, but for what nobody can know: what others than the first replica have wrong, or what is right
    of an operation that has no counterpart; nor what made wrong that a later step begins with.
    """
    op = aligned.op(found.node)
    if op.zone == APART:
        return NoCulprit("what differs first is made of shards in another way than one device makes it of the whole")
    if isinstance(aligned, WholesAlignment) and found.node not in aligned.truths and aligned.is_sum(found.node):
        return NoCulprit("what differs first is added up of what each replica has for itself, and is wrong on another")
    culprit = told(aligned, found)
    # What a variable begins the first step with was given to it where it was made; and in each step one replica may
    # read what another one has made of the copy that they share.
    shares = culprit.kind == SHARED.code
    if op.type == "ReadVariableOp" and aligned.reference.watched.step > 1 and not shares:
        return NoCulprit(f"variable {op.variable!r} was wrong already when the step began", earlier=True)
    return culprit


def _begins(op: Op) -> bool:
    """Whether nothing before an operation was wrong that was seen: what a later turn is given was not."""
    return assigns(op) or op.type == "ReadVariableOp"


def first_broken(
    aligned: Alignment, wrong: Sequence[WrongReport] = (), *, on_read: bool = True
) -> WrongOperation | None:
    """The operation that came first of those that made assigned or reported values wrong."""
    back = _Back(aligned)
    found = back.of_assigned(sinks(aligned, on_read=False))
    # Of what each replica keeps for itself it may have its own part, if that is put together later.
    if on_read and all(_begins(aligned.op(broken.node)) for broken in found):
        found = back.of_assigned(sinks(aligned))
    reported = _reported(aligned, wrong)
    for wanted in reported:
        found += next(filter(None, (back.sources(mode, [wanted]) for mode in Mode)), [])
    # Copies of a metric are added up when they are read: that is to blame only where nothing before it is.
    found = found or [broken for wanted in reported for broken in back.reduced(wanted)]
    if not found:
        return None

    def rank(broken: WrongOperation) -> tuple[bool, bool, bool, int]:
        """Positions in a batch are rightly others in each replica, so that whole numbers are blamed last."""
        node = broken.node
        return back.is_doubtful(node), broken.mode is not Mode.UNRELATED, aligned.is_whole(node), node.number

    first = min((each for each in found if not back.is_innocent(each)), key=rank, default=None)
    if first is None:
        return None
    if aligned.op(first.node).differentiates:
        return _differentiated(aligned, back, first)
    if first.node in aligned.truths:
        return first
    if (of_rows := computed_of_rows(aligned)) is not None:
        return WrongOperation(of_rows, first.mode, rows=True)
    branched = only_some(aligned, first.node)
    return first if branched is None else WrongOperation(branched, first.mode)


def _differentiated(aligned: Alignment, back: _Back, first: WrongOperation) -> WrongOperation:
    """A mistake in what is differentiated is one in the gradient too; the line to mend is the former's."""
    forward = aligned.sides[first.node.client].forward_of(aligned.op(first.node))
    ways = [(first.mode, aligned.sides[0].watched.targets)]
    ways += [(mode, forward.outputs) for mode in (first.mode, *Mode) if forward is not None]
    # A loss that a right regularizer was added to is in no relation, though what was added up is.
    ways += [(Mode.UNRELATED, aligned.sides[0].watched.targets)]
    for mode, tensors in ways:
        for made in back.sources(mode, [WantedTensor(tensor, whole=False) for tensor in tensors])[:1]:
            earlier = replace(made, summed=first.summed)
            # What is differentiated may hold a gradient itself, which was made before it.
            further = aligned.op(made.node).differentiates and made.node.number < first.node.number
            return _differentiated(aligned, back, earlier) if further else earlier
    # A loss that is the largest of a replica's own is right on one of them, and is not used as if it were all's.
    found = next(iter(back.extremes(aligned.sides[0].watched.targets)), first)
    return replace(found, term=back.whole_term(found.node))


class _Back:
    """The ways back of both modes in the first client's operations."""

    def __init__(self, aligned: Alignment) -> None:
        self._aligned = aligned
        self._walks = {mode: Walk(aligned, 0, mode) for mode in Mode}
        self._later = LaterDivisions(aligned, Walk(aligned, 0, Mode.SCALED))
        self._walks[Mode.SCALED].divided = self._later.divided

    def summed(self, mode: Mode) -> OperationNode | None:
        """A sum over replicas on the way."""
        return self._walks[mode].summed

    def tell(self, node: OperationNode) -> None:
        """Let the operands of an operation be known by those of the reference's."""
        for walk in self._walks.values():
            walk.tell(self._aligned.op(node))

    def of_assigned(self, assigned: Iterable[tuple[OperationNode, Mode, WantedTensor]]) -> list[WrongOperation]:
        """The operations that made what these assign wrong, or they themselves."""
        found: list[WrongOperation] = []
        for node, mode, wanted in assigned:
            self.tell(node)
            itself = WrongOperation(node, mode, self.summed(mode))
            found += self.sources(mode, [wanted]) or [itself if mode is Mode.UNRELATED else self._undivided(itself)]
        return found

    def sources(self, mode: Mode, starts: Sequence[WantedTensor]) -> list[WrongOperation]:
        """The operations that made any of these wrong."""
        walk = self._walks[mode]
        found: list[WrongOperation] = []
        for node in walk.sources(starts):
            if mode is Mode.SCALED:
                found.append(self._undivided(WrongOperation(node, mode, walk.summed)))
                continue
            if (division := self._later.after(node)) is not None:
                found.append(WrongOperation(node, mode, walk.summed, division=division))
                continue
            found += self._multiplied(node) or self._extreme(node) or [WrongOperation(node, mode, walk.summed)]
        return found

    def _undivided(self, broken: WrongOperation) -> WrongOperation:
        """The same, with the division by the number of replicas of what it is given."""
        return replace(broken, division=self._later.before(broken.node), apart=True)

    def is_innocent(self, broken: WrongOperation) -> bool:
        """Whether an operation cannot be wrong that is given what is right: then rounding hides what is not.

        What an element becomes follows from the same element, or row, of what it is computed from.
        """
        op = self._aligned.op(broken.node)
        if broken.mode is not Mode.UNRELATED or op.type not in _BY_ELEMENTS or broken.node not in self._aligned.truths:
            return False
        walk = self._walks[Mode.UNRELATED]
        walk.tell(op)
        known = []
        for tensor in op.inputs:
            made = self._aligned.sides[0].producer(tensor)
            given = made is not None and made.type.startswith(EXAMPLES)
            known.append({Relation(SPLIT)} if given else {each for each in walk.facts(tensor) or () if each.right})
        if not all(any(each.kind in (REPLICATED, SPLIT) for each in relations) for relations in known):
            return False
        split = [relations for relations in known if not any(each.kind == REPLICATED for each in relations)]
        # What each has of its own against what each has of its own, along another axis, are pairs of examples.
        return not split or bool(set.intersection(*({each.axis for each in rows} for rows in split)))

    def is_doubtful(self, node: OperationNode) -> bool:
        """Whether an operand may be right or a multiple, as far as rounding lets that be seen."""
        walk = self._walks[Mode.UNRELATED]
        for tensor in self._aligned.op(node).inputs:
            same = [each.right for each in walk.facts(tensor) or () if each.kind == REPLICATED]
            values = self._aligned.sides[0].values(tensor)
            if any(same) and not all(same) and any(value.any() for value in values):
                return True
        return False

    def reduced(self, wanted: WantedTensor) -> list[WrongOperation]:
        """The sum over replicas that gave a wrong value of right ones, where only the run has it."""
        walk = self._walks[Mode.UNRELATED]
        blamed = OperationNode(0, walk.blamed(wanted.tensor))
        return [] if blamed in self._aligned.truths or not blamed.number else [WrongOperation(blamed, Mode.UNRELATED)]

    def whole_term(self, node: OperationNode) -> OperationNode | None:
        """The differentiated operation whose part of a sum of gradients each replica has whole, beside parts of others.

        Where such a term is zero, as a penalty of variables that begin with zero, only its gradient is wrong.
        """
        walk, side = self._walks[Mode.UNRELATED], self._aligned.sides[0]
        op = self._aligned.op(node)
        if not (op.differentiates and op.type in ADDITIONS):
            return None
        kinds = {tensor: {each.kind for each in walk.facts(tensor) or () if each.right} for tensor in op.inputs}
        whole = [tensor for tensor, found in kinds.items() if REPLICATED in found and PARTIAL not in found]
        pending, seen = whole if len(whole) < len(kinds) else [], set[int]()
        while pending:
            made = side.producer(pending.pop(0))
            if made is None or not made.differentiates or made.number in seen:
                continue
            seen.add(made.number)
            forward = side.forward_of(made)
            if forward is None:
                pending += made.inputs
            elif any(each.kind == REPLICATED for each in walk.facts(forward.outputs[0]) or ()):
                return OperationNode(0, forward.number)
        return None

    def _extreme(self, node: OperationNode) -> list[WrongOperation]:
        """Where each replica took the largest or smallest of its own, of an operation that uses it as if of all."""
        walk = self._walks[Mode.UNRELATED]
        return self.extremes(walk.aligned_before(node))

    def extremes(self, tensors: Iterable[int]) -> list[WrongOperation]:
        """Where each replica took the largest or smallest of its own, of which these were computed."""
        walk = self._walks[Mode.UNRELATED]
        made = map(walk.first_extreme, tensors)
        return [WrongOperation(each, Mode.UNRELATED, walk.summed) for each in made if each is not None]

    def _multiplied(self, node: OperationNode) -> list[WrongOperation]:
        """What multiplied an operand by the number of replicas, of an operation in which that does not carry on.

        A root, or the sum with a constant, of a gradient that is twice as large as it should be is in no relation; nor
        is the distance of examples from a mean that each replica has taken of its own. But clipping before the sum is
        wrong also where what is clipped is a mean that would be divided later: then its way leads through gradients,
        of which no other gradient is taken.
        """
        walk, summed = self._walks[Mode.SCALED], self.summed(Mode.UNRELATED)
        averaged = self._walks[Mode.UNRELATED].averages
        op = walk.last_change(self._aligned.op(node))
        walk.tell(op)
        is_loss = walk.is_differentiated(node.number)
        operands = []
        for tensor in op.inputs:
            facts = walk.facts(tensor) or ()
            same = any(each.kind == REPLICATED for each in facts)
            wrong = not has_right_size(facts, averaged=averaged)
            parts = any(each.kind == PARTIAL for each in facts) and (is_loss or not walk.is_behind_a_gradient(tensor))
            if (same and (wrong or walk.is_behind_a_sum(tensor))) or (parts and wrong):
                operands.append(WantedTensor(tensor, whole=True))
        found = walk.sources(operands, averaged=averaged)
        return [self._undivided(WrongOperation(each, Mode.SCALED, walk.summed or summed)) for each in found]


def _reported(aligned: Alignment, wrong: Sequence[WrongReport]) -> list[WantedTensor]:
    """The tensors that held what was reported, of several the latest; a number may have become one of Python's.

    But for what one replica has and others have not: no operation is wrong of which that was reported.
    """
    rest = [each for each in wrong if not _of_one_replica(aligned, each)]
    found = [(each, _holding(aligned.sides[0], each.value)) for each in rest]
    return [WantedTensor(tensors[-1], each.whole) for each, tensors in found if tensors]


def _of_one_replica(aligned: Alignment, reported: WrongReport) -> bool:
    """Whether a value stands for all replicas that is only one's own."""
    return reported.whole and any(_is_part(aligned, tensor) for tensor in _holding(aligned.sides[0], reported.value))


def _taken_apart_at(side: ClientStep, values: Sequence[Array]) -> Frame | None:
    """The line at which the program has taken the replicas' values apart of which it reported these, if it is one."""
    held = {digest for value in values for digest in (digest_of(value), _as_float32(value))}
    frames = {
        side.watched.frames[each.caller]
        for each in side.watched.taken_apart
        if any(taken.digest in held for tensor in each.tensors for taken in side.taken(tensor))
    }
    return frames.pop() if len(frames) == 1 else None


def _as_float32(value: Array) -> int | None:
    """The digest of a Python number that may have been one of float32."""
    if value.dtype != "float64" or value.shape:
        return None
    import numpy as np

    return digest_of(Array.of(np.float32(value.numpy())))


def _holding(side: ClientStep, value: Array) -> list[int]:
    """The tensors that held a value; without what a function gave, if an operation in it is known to have held it.

    Large models do not compute the same bits twice; then those that held nearly the same.
    """
    found = side.by_digest.get(digest_of(value), [])
    for dtype in {value.dtype, "float32" if value.dtype == "float64" else value.dtype}:
        side.ask(form_of(dtype, tuple(value.shape)))
    if not found and (single := _as_float32(value)) is not None:
        found = side.by_digest.get(single, [])
    found = found or side.near(value.numpy())
    inside = [tensor for tensor in found if (op := side.producer(tensor)) and not op.type.startswith(CALLS)]
    return inside or found


def _is_part(aligned: Alignment, tensor: int) -> bool:
    """Whether each replica has a value of its own there, in whatever relation all of them are to the reference's."""
    op = aligned.sides[0].producer(tensor)
    number = None if op is None or op.zone != REPLICA else aligned.truths.get(OperationNode(0, op.number))
    if op is None or number is None:
        return False
    place = op.outputs.index(tensor)
    nodes = aligned.counterparts[number]
    digests = [
        [each.digest for each in aligned.sides[node.client].taken(aligned.op(node).outputs[place])] for node in nodes
    ]
    return any(each != digests[0] for each in digests)


def _changed_by_each(aligned: Alignment) -> OperationNode | None:
    """The first operation by which each replica adds the same to a variable of which there is one copy."""
    for theirs in aligned.reference.assigning():
        nodes = aligned.counterparts.get(theirs.number, ())
        if len(nodes) > 1 and all(adds_to_one_copy(aligned, aligned.op(node)) for node in nodes):
            return nodes[0]
    return None


# Statistics of batch normalization that are wrong as they were reported, since each replica keeps its own.
#
# The reference normalises the batch of each replica by itself where the run does, out of sight: no operation of it
# says what they should be. Nothing else that is wrong follows from them.


def _separate_statistics(aligned: Alignment) -> OperationNode | None:
    """The first operation by which replicas give their copies of such a variable unlike values."""
    given: dict[str, set[tuple[int, ...]]] = {}
    found: dict[str, OperationNode] = {}
    for client, side in enumerate(aligned.sides):
        for op in side.assigning():
            node = OperationNode(client, op.number)
            if is_statistics(op.variable) and node not in aligned.truths:
                values = tuple(taken.digest for tensor in op.inputs if tensor for taken in side.taken(tensor))
                given.setdefault(op.variable, set()).add(values)
                found.setdefault(op.variable, node)
    return next((node for name, node in found.items() if len(given[name]) > 1), None)
