"""From an operation of a gradient to the one that is differentiated there, by the names that TensorFlow gives them.

A gradient is made by whoever asks for it, which in Keras's `fit` is Keras: the line to mend is the differentiated
operation's. TensorFlow names what it makes for the gradient of `loss/truediv` `gradient_tape/loss/truediv/...`.
"""

from __future__ import annotations

from harness.evidence.watched import Op
from harness.judging.culprit.aligned import Aligned, Node
from harness.judging.culprit.relations import Relation
from harness.judging.culprit.walk import Broken, Mode, is_multiple

__all__ = ["differentiated"]

_TAPE = "gradient_tape/"


def differentiated(aligned: Aligned, broken: Broken) -> Broken | None:
    """The operation whose gradient is broken, where what it gives is wrong in the same way; None where it is right."""
    forward = _forward(aligned, broken.node)
    if forward is None:
        return None
    node = Node(broken.node.client, forward.number)
    number = aligned.truths.get(node)
    relations = None if number is None else aligned.output(number)
    if relations is None or not _is_wrong(relations, broken.mode):
        return None
    return Broken(node, broken.mode, broken.summed)


def _forward(aligned: Aligned, node: Node) -> Op | None:
    op = aligned.op(node)
    if _TAPE not in op.name:
        return None
    place = (op.zone, op.index)
    named = {
        other.name: other
        for other in aligned.sides[node.client].watched.ops
        if not other.differentiates and (other.zone, other.index) == place
    }
    name = op.name.replace(_TAPE, "")
    while name:
        if name in named:
            return named[name]
        name = name.rpartition("/")[0]
    return None


def _is_wrong(relations: frozenset[Relation], mode: Mode) -> bool:
    return is_multiple(relations, whole=False) if mode is Mode.SCALED else not relations
