"""From an operation of a gradient to the one that is differentiated there, by the names that TensorFlow gives them.

A gradient is made by whoever asks for it, which in Keras's `fit` is Keras: the line to mend is the differentiated
operation's. TensorFlow names what it makes for the gradient of `loss/truediv` `gradient_tape/loss/truediv/...`, by the
scope that this has opened. Of one that opens none, such as `Mean`, the gradient stands in the scope around it, where it
may bear the name of another one, which is not taken for it.
"""

from __future__ import annotations

from harness.evidence.watched_step import Op
from harness.judging.culprit.alignment import Alignment, OperationNode

__all__ = ["forward_of"]

_TAPE = "gradient_tape/"


def forward_of(aligned: Alignment, node: OperationNode) -> Op | None:
    """The operation of whose gradient another one is a part; None where that cannot be told."""
    op = aligned.op(node)
    if _TAPE not in op.name:
        return None
    place = (op.zone, op.index)
    named = {
        other.name: other
        for other in aligned.sides[node.client].watched.ops
        if not other.differentiates and (other.zone, other.index) == place
    }
    scope = op.name.replace(_TAPE, "").rpartition("/")[0]
    while scope:
        if scope in named:
            return named[scope]
        scope = scope.rpartition("/")[0]
    return None
