"""Shapes that TensorFlow left open while it made a graph, as far as they follow from what is known here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from harness.evidence.step_graph import GraphNode
from harness.relations.facts import Fact, Shape

_ELEMENTWISE = [
    "Abs",
    "Add",
    "AddN",
    "AddV2",
    "BiasAdd",
    "Cast",
    "DivNoNan",
    "Equal",
    "Exp",
    "Floor",
    "Greater",
    "GreaterEqual",
    "Less",
    "LessEqual",
    "Log",
    "Log1p",
    "LogicalAnd",
    "LogicalNot",
    "LogicalOr",
    "Maximum",
    "Minimum",
    "Mul",
    "MulNoNan",
    "Neg",
    "NotEqual",
    "OnesLike",
    "Pow",
    "RealDiv",
    "Relu",
    "ReluGrad",
    "Rsqrt",
    "Select",
    "SelectV2",
    "Sigmoid",
    "SigmoidGrad",
    "Sign",
    "Softplus",
    "Sqrt",
    "Square",
    "SquaredDifference",
    "Sub",
    "Tanh",
    "TanhGrad",
    "ZerosLike",
    "Xdivy",
    "Identity",
    "StopGradient",
    "PreventGradient",
]


def closer(node: GraphNode, given: Sequence[Fact]) -> GraphNode:
    """The same operation, with the shape of its result as far as it can be known."""
    if len(node.shapes) != 1 or (node.shapes[0] is not None and None not in node.shapes[0]):
        return node
    known = _SHAPES.get(node.type) if node.attributes.get("data_format", "NHWC") == "NHWC" else None
    shape = _multiplied(node, given) if node.type == "MatMul" else None if known is None else known(given)
    if shape is None:
        return node
    before = node.shapes[0]
    if before is not None and len(before) == len(shape):
        shape = tuple(one if one is not None else two for one, two in zip(before, shape, strict=True))
    return msgspec.structs.replace(node, shapes=(shape,))


def _multiplied(node: GraphNode, given: Sequence[Fact]) -> Shape:
    one, other = (each.shape for each in given[:2])
    if one is None or other is None or len(one) != 2 or len(other) != 2:
        return None
    turned = [bool(node.attributes.get(key)) for key in ("transpose_a", "transpose_b")]
    return (one[1] if turned[0] else one[0], other[0] if turned[1] else other[1])


def _broadcast(given: Sequence[Fact]) -> Shape:
    shapes = [each.shape for each in given]
    if not shapes or any(each is None for each in shapes):
        return None
    rank = max(len(each or ()) for each in shapes)
    found: list[int | None] = []
    for place in range(-rank, 0):
        lengths = {(each or ())[place] for each in shapes if len(each or ()) >= -place}
        known = lengths - {1, None}
        found.append(known.pop() if len(known) == 1 else 1 if lengths == {1} else None)
    return tuple(found)


def _numbers(given: Fact) -> Shape:
    if given.value is not None and given.value.ndim == 1:
        return tuple(int(each) if each >= 0 else None for each in given.value)
    if given.parts:
        values = [each.value for each in given.parts]
        return tuple(None if value is None or int(value) < 0 else int(value) for value in values)
    return None


def _reshaped(before: Shape, after: Shape) -> Shape:
    """With the length that is left open, if there is one, from how many elements there are."""
    if before is None or after is None or None in before or after.count(None) != 1:
        return after
    known = math.prod(length for length in after if length is not None)
    count = math.prod(length for length in before if length is not None)
    if not known or count % known:
        return after
    return tuple(count // known if length is None else length for length in after)


def _expanded(given: Sequence[Fact]) -> Shape:
    shape, at = given[0].shape, given[1].value
    if shape is None or at is None:
        return None
    axis = int(at.reshape(-1)[0]) % (len(shape) + 1)
    return (*shape[:axis], 1, *shape[axis:])


def _turned(given: Sequence[Fact]) -> Shape:
    shape, order = given[0].shape, given[1].value
    return None if shape is None or order is None else tuple(shape[int(axis)] for axis in order.reshape(-1))


_SHAPES: dict[str, Callable[[Sequence[Fact]], Shape]] = {
    **dict.fromkeys(_ELEMENTWISE, _broadcast),
    "BiasAddGrad": lambda given: None if not given[0].shape else given[0].shape[-1:],
    "Reshape": lambda given: _reshaped(given[0].shape, _numbers(given[1])),
    "BroadcastTo": lambda given: _numbers(given[1]),
    "Fill": lambda given: _numbers(given[0]),
    "ExpandDims": _expanded,
    "Transpose": _turned,
}
