"""A culprit in words."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.evidence.watched_step import REPLICA, SHARD, Frame, Op
from harness.judging.culprit.alignment import Alignment, OperationNode
from harness.judging.culprit.branch import carried_out_by
from harness.judging.culprit.client_step import ARRIVED, assigns
from harness.judging.culprit.kinds import LOSS, REPORT, ROWS, UNLIKE, MistakeKind
from harness.judging.culprit.later_division import used_undivided
from harness.judging.culprit.protocol import Culprit
from harness.judging.culprit.reasons import reason
from harness.judging.culprit.relations import LARGEST, PARTIAL, REPLICATED, SMALLEST, SPLIT, Relation
from harness.judging.culprit.repeated_rows import SAYS as COMPUTED_OF_ROWS
from harness.judging.culprit.scene import Reduction
from harness.judging.culprit.walk import WrongOperation, is_extreme
from simulator.agent.places import place, source_at

if TYPE_CHECKING:
    import numpy as np


_KERASES = {"keras", "tf_keras"}
_NEAREST = 12
"""Operations before one that only the run has, among which there may be one of another line."""
_ASSIGNED = re.compile(r"^(\w+)\s*=(?!=)")
_KINDS = {
    SPLIT: "split by examples",
    REPLICATED: "the same in each replica",
    PARTIAL: "a part in each replica, which add up",
    LARGEST: "a part in each replica, whose largest counts",
    SMALLEST: "a part in each replica, whose smallest counts",
}
_OF_SHARDS = {
    SPLIT: "split by rows",
    REPLICATED: "the same for each shard",
    PARTIAL: "a part for each shard, which add up",
}
_PREFERRED = (SPLIT, REPLICATED, PARTIAL, LARGEST, SMALLEST)


def told(aligned: Alignment, broken: WrongOperation) -> Culprit:
    """What there is to say of an operation that made a step wrong."""
    op, side = aligned.op(broken.node), aligned.sides[broken.node.client]
    maker = None if broken.summed is None and _gets_parts(aligned, broken.node) else side.maker(op)
    term = op if broken.term is None else aligned.op(broken.term)
    layer, frame = maker if maker is not None else (_scope(op), side.caller(term))
    summed = _summed(aligned, broken)
    averaged = broken.summed is not None and side.averages(aligned.op(broken.summed))
    adds = summed is not None and not averaged and not _has_one_replica(aligned)
    kind, relation = (
        _of_one_replica(aligned, broken.node)
        or ((ROWS, COMPUTED_OF_ROWS) if broken.rows else None)
        or used_undivided(aligned, broken)
        or reason(aligned, broken, None if summed is None else Reduction(_at(summed), averages=averaged))
    )
    taken = None if broken.node in aligned.truths else _taken(aligned, broken.node)
    relation += "" if taken is None else f"; what it takes was made by {_at(taken)}"
    losses = map(side.producer, side.watched.targets if kind is LOSS else ())
    frame = next((side.caller(made) for made in losses if made is not None), frame)
    return Culprit(
        file=_shown(frame),
        line=0 if frame is None else frame.line,
        source=_source(frame),
        op=op.type,
        layer=layer,
        relation=relation,
        expected=_output(aligned, broken.node),
        inputs=tuple(_inputs(aligned, broken.node)),
        step=aligned.reference.watched.step,
        assigned=op.variable if assigns(op) else None,
        adds=(_shown(summed), summed.line, _source(summed)) if summed is not None and adds else None,
        kind=None if kind is None else kind.code,
        among=side.among(op) if frame is not None and frame == side.caller(op) else None,
    )


def _taken(aligned: Alignment, node: OperationNode) -> Frame | None:
    """Another line of the program's that made what an operation of Keras takes which only the run has.

    Then its own line is no more than a call: what it is wrong for is the value that it was given.
    """
    side, op = aligned.sides[node.client], aligned.op(node)
    op = side.forward_of(op) or op if op.differentiates else op
    if not op.frames or not _KERASES & {*Path(side.watched.frames[op.frames[-1]].file).parts}:
        return None
    pending, seen = deque([op]), {op.number}
    while pending and len(seen) <= _NEAREST:
        for made in map(side.producer, pending.popleft().inputs):
            if made is None or made.type == "Const" or made.number in seen:
                continue
            frame = side.caller(made)
            if frame is not None and frame != side.caller(op):
                return frame
            seen.add(made.number)
            pending.append(made)
    return None


def _of_one_replica(aligned: Alignment, node: OperationNode) -> tuple[MistakeKind | None, str] | None:
    """What is wrong with a result where the run has no other replica, as in a closure that a coordinator schedules."""
    number, op = aligned.truths.get(node), aligned.op(node)
    if not _has_one_replica(aligned):
        return None
    if number is None:
        return None, "one device does not compute this"
    kind = UNLIKE if _is_for_shards(op) else None
    if assigns(op):
        return kind, f"variable {op.variable!r} is given what it is not given on one device"
    if kind is not None:
        other = ", and is given a constant that one device has not"
        given = other if _has_other_constant(aligned, number, node) else ""
        return kind, f"what it gives for the shards is not what one device gets for the whole{given}"
    times = {_times(aligned, number, node, position) for position in range(len(op.outputs))}
    factor = times.pop() if len(times) == 1 else None
    what = "not what one device gets" if factor is None else f"{factor:.6g} times what one device gets"
    return None, f"what it gives is {what}"


def _has_one_replica(aligned: Alignment) -> bool:
    return len(aligned.sides) == 1 and len(aligned.places.get(REPLICA, ())) == 1


def _is_for_shards(op: Op) -> bool:
    return op.zone.startswith(SHARD)


def _has_other_constant(aligned: Alignment, number: int, node: OperationNode) -> bool:
    """Whether Python gives shards a value that is not the whole's: the mistake may be where that is computed."""
    theirs, nodes = aligned.reference.by_number[number], aligned.counterparts[number]
    for position, tensor in enumerate(aligned.op(node).inputs):
        made = aligned.sides[node.client].producer(tensor)
        if made is not None and made.type == "Const" and position < len(theirs.inputs):
            given = [(each.client, aligned.op(each).inputs[position]) for each in nodes]
            relations = aligned.related(theirs.inputs[position], given)
            if relations is not None and not any(each.right and each.kind != PARTIAL for each in relations):
                return True
    return False


def _times(aligned: Alignment, number: int, node: OperationNode, position: int) -> float | None:
    """By how much an output is a multiple of the reference's; None if it is none, or that cannot be told."""
    import numpy as np

    truth = aligned.reference.by_number[number].outputs[position]
    theirs, ours = (
        aligned.reference.values(truth),
        aligned.sides[node.client].values(aligned.op(node).outputs[position]),
    )
    if not theirs or not ours or theirs[0].shape != ours[0].shape or theirs[0].dtype.kind != "f":
        return None
    with np.errstate(all="ignore"):
        share = float(np.sum(ours[0] * theirs[0], dtype=np.float64) / np.sum(np.square(theirs[0], dtype=np.float64)))
        off = np.abs(ours[0] - share * theirs[0])
        near = np.all(off <= max(1.0, abs(share)) * aligned.allowed(truth, 0))
    return round(share, 4) if near else None


def told_of_report(frame: Frame, step: int) -> Culprit:
    """The same of a line that takes replicas apart, of which one was reported."""
    return Culprit(
        file=_shown(frame),
        line=frame.line,
        source=_source(frame),
        op="experimental_local_results",
        layer=None,
        relation=REPORT.says,
        expected="what one replica has",
        inputs=(),
        step=step,
        kind=REPORT.code,
    )


def _shown(frame: Frame | None) -> str:
    if frame is None:
        return "?"
    path = Path(frame.file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else frame.file


def _source(frame: Frame | None) -> str:
    return "" if frame is None else source_at(frame.file, frame.line)


def _scope(op: Op) -> str | None:
    """The scope in which an operation stands in its graph, without the replica's and the gradient's own."""
    scopes = [
        scope for scope in op.name.split("/")[:-1] if not re.fullmatch(r"replica_\d+|update_\d+|gradient_tape", scope)
    ]
    return "/".join(scopes) or None


def _summed(aligned: Alignment, broken: WrongOperation) -> Frame | None:
    """The line that adds up what comes from an operation, if that was seen."""
    node = broken.summed
    return None if node is None else aligned.sides[node.client].caller(aligned.op(node))


def _gets_parts(aligned: Alignment, node: OperationNode) -> bool:
    """Whether it is given parts of a sum: who gives them to an optimizer is to blame, if nothing adds them up."""
    kinds = [{each.kind for each in relations} for _, relations in _operands(aligned, node)]
    return any(PARTIAL in found and REPLICATED not in found for found in kinds)


def _inputs(aligned: Alignment, node: OperationNode) -> Iterator[str]:
    """What each operand is, but for constants."""
    kinds = _OF_SHARDS if _is_for_shards(aligned.op(node)) else _KINDS
    for producer, relations in _operands(aligned, node):
        yield f"{_called(aligned, node.client, producer)} is {_relation(relations, aligned.replicas, kinds)}"


def _operands(aligned: Alignment, node: OperationNode) -> Iterator[tuple[Op | None, frozenset[Relation]]]:
    """What made each operand that is no constant, and how it is related to the reference's, where that is known."""
    number = aligned.truths.get(node)
    op, side = aligned.op(node), aligned.sides[node.client]
    if number is None:
        return
    theirs, nodes = aligned.reference.by_number[number], aligned.counterparts[number]
    for position, tensor in enumerate(op.inputs):
        producer = side.producer(tensor)
        if not tensor or (producer is not None and producer.type == "Const") or position >= len(theirs.inputs):
            continue
        given = [(each.client, aligned.op(each).inputs[position]) for each in nodes]
        relations = aligned.related(theirs.inputs[position], given)
        if relations is not None:
            yield producer, relations


def _called(aligned: Alignment, client: int, op: Op | None) -> str:
    """What the program calls a value, where the line that made it says so."""
    if op is None or op.type in ARRIVED:
        return "what came in"
    if op.variable:
        return f"variable {op.variable!r}"
    side = aligned.sides[client]
    frame = side.caller(op)
    if (found := _ASSIGNED.match(_source(frame))) and not op.differentiates and _is_last(aligned, client, op):
        return found.group(1)
    return f"{op.type} of {_at(frame)}" if frame is not None else op.type


def _is_last(aligned: Alignment, client: int, op: Op) -> bool:
    """Whether no later operation was made by the same line in the same place."""
    later = aligned.sides[client].watched.ops[op.number :]
    return not any(
        other.caller == op.caller and (other.zone, other.index) == (op.zone, op.index) and not other.differentiates
        for other in later
    )


def _at(frame: Frame) -> str:
    return place(Path(frame.file).name, frame.line)


def _relation(relations: frozenset[Relation], replicas: int, kinds: Mapping[str, str]) -> str:
    if not relations:
        return "in no relation to the reference's"
    best = min(relations, key=lambda each: (abs(each.power), _PREFERRED.index(each.kind)))
    words = f"split along axis {best.axis}" if best.kind == SPLIT and best.axis else kinds[best.kind]
    if best.right:
        return f"{words} (right)"
    times = f"{replicas**best.power} times" if best.power > 0 else f"1/{replicas**-best.power} of"
    return f"{words}, and {times} the reference's"


def _output(aligned: Alignment, node: OperationNode) -> str:
    """What an operation should have given, and what it gave: a number, or the one that is furthest off."""
    number, op = aligned.truths.get(node), aligned.op(node)
    if number is None and assigns(op):
        return "expected one value in all replicas, found others"
    if number is None:
        return "is not in every replica" if carried_out_by(aligned, node.client, op) else "is not in the reference"
    if assigns(op):
        return _assigned(aligned, number)
    theirs, nodes = aligned.reference.by_number[number], aligned.counterparts[number]
    for position, truth in enumerate(theirs.outputs):
        relations = aligned.output(number, position)
        if relations is None or (any(relation.right for relation in relations) and not is_extreme(relations)):
            continue
        if aligned.reference.is_sketched(truth):
            return "a value that is too large to be kept whole"
        values = aligned.reference.values(truth)
        parts = [aligned.sides[each.client].values(aligned.op(each).outputs[position]) for each in nodes]
        for turn, value in enumerate(values):
            return _compared(value, [each[turn] for each in parts], relations)
    return "no value of it was kept"


def _assigned(aligned: Alignment, number: int) -> str:
    theirs, nodes = aligned.reference.by_number[number], aligned.counterparts[number]
    for position, truth in enumerate(theirs.inputs):
        if truth and (values := aligned.reference.values(truth)):
            parts = [aligned.sides[each.client].values(aligned.op(each).inputs[position]) for each in nodes]
            return _compared(values[0], [each[0] for each in parts if each], frozenset())
    return "no value of it was kept"


def _compared(
    value: np.ndarray[Any, Any], parts: Sequence[np.ndarray[Any, Any]], relations: frozenset[Relation]
) -> str:
    import numpy as np

    if all(part.shape == value.shape for part in parts) and value.size:
        with np.errstate(all="ignore"):
            wide = [part.astype(np.float64) for part in parts]
            off = np.abs(np.sum(wide, axis=0) - value) if len(wide) > 1 else np.abs(wide[0] - value)
        index = tuple(int(each) for each in np.unravel_index(int(np.argmax(off)), value.shape))
        at = f"{list(index)} " if index else ""
        found = " and ".join(f"{part[index]:.5g}" for part in parts)
        kinds = {relation.kind for relation in relations}
        sums = "parts that add up to " if PARTIAL in kinds and REPLICATED not in kinds else ""
        return f"{at}expected {sums}{value[index]:.5g}, found {found}"
    shapes = " and ".join(str(list(part.shape)) for part in parts)
    return f"expected values of shape {list(value.shape)}, found other ones of shapes {shapes}"
