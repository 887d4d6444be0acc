"""Products of matrices, sums over named axes, convolutions: rows stay rows, and a sum over rows is a partial one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import GraphStep, rule


def _product(step: GraphStep, places: Sequence[int]) -> tuple[Fraction, int]:
    """What comes of the operands, where the operation is linear in each of those at some places."""
    scale = Fraction(1)
    for place in places:
        scale *= step.ins[place].scale
    plain = [(Fraction(1), each.term) if place in places else each.scaled for place, each in enumerate(step.ins)]
    return scale, step.term(*plain)


def _contracted(step: GraphStep, axes: Sequence[dict[int, str]], result: str) -> Fact:
    """A product that sums over labels that the result has not.

    Args:
        step: the operation; its first operands are the factors.
        axes: for each factor the label of each axis.
        result: the labels of the result's axes.
    """
    factors = step.ins[: len(axes)]
    scaled = _product(step, range(len(axes)))
    kinds = [each.kind for each in factors]
    if step.all_replicated(factors):
        return step.replicated(scaled)
    if FactKind.PARTIAL in kinds or FactKind.ROWS in kinds:
        others = [kind for kind in kinds if kind is not FactKind.REPLICATED]
        return step.partial(scaled) if len(others) == 1 else step.unknown("a product of parts of sums")
    if any(kind not in (FactKind.SPLIT, FactKind.REPLICATED) for kind in kinds):
        return step.unknown("a product that means nothing for all replicas together")
    labels = {names[each.axis] for each, names in zip(factors, axes, strict=True) if each.kind is FactKind.SPLIT}
    if len(labels) != 1:
        return step.unknown("every example is multiplied with every other one of the same replica only")
    (label,) = labels
    for each, names in zip(factors, axes, strict=True):
        have = [axis for axis, name in names.items() if name == label]
        if each.kind is FactKind.SPLIT and have != [each.axis]:
            return step.unknown("the examples lie along two axes")
        if each.kind is FactKind.REPLICATED and any((each.shape or ())[axis] != 1 for axis in have):
            return step.unknown("the replica's examples are multiplied with what everybody has of all examples")
    if result.count(label) == 1:
        rows = {each.rows for each in factors if each.kind is FactKind.SPLIT}
        length = rows.pop() if len(rows) == 1 else None
        return step.split(scaled, result.index(label), rows=length, also=step.alike_long(factors))
    pairs = zip(factors, axes, strict=True)
    if label in result or any(each.kind is FactKind.REPLICATED and label in names.values() for each, names in pairs):
        return step.unknown("the examples lie along two axes of the result")
    return step.partial(scaled)


_LETTERS = "ABCDEFGHIJKLMN"


@rule("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _matrices(step: GraphStep) -> Fact:
    one, other = step.ins
    if one.rank is None or other.rank is None or min(one.rank, other.rank) < 2:
        return step.unknown("the rank of a matrix is not known", ruleless=True)
    keys = ("transpose_a", "transpose_b") if step.node.type == "MatMul" else ("adj_x", "adj_y")
    turned = [bool(step.node.attributes.get(key)) for key in keys]
    rank = max(one.rank, other.rank)
    batch = _LETTERS[: rank - 2]
    axes = []
    for given, turn, ends in ((one, turned[0], "xy"), (other, turned[1], "yz")):
        count = (given.rank or 0) - 2
        names = batch[len(batch) - count :] + (ends[::-1] if turn else ends)
        axes.append(dict(enumerate(names)))
    return _contracted(step, axes, batch + "xz")


@rule("Einsum")
def _einsum(step: GraphStep) -> Fact:
    equation = re.sub(r"\s", "", str(step.node.attributes.get("equation", "")))
    given, arrow, result = equation.partition("->")
    names = given.split(",")
    if not arrow or "." in equation or len(names) != len(step.ins):
        return step.unknown("this equation is not understood", ruleless=True)
    if any(each.rank != len(each_names) for each, each_names in zip(step.ins, names, strict=True)):
        return step.unknown("this equation is not understood", ruleless=True)
    return _contracted(step, [dict(enumerate(each)) for each in names], result)


# Per row of the batch, along the first axis: which operands have rows, and in which of those it is linear.
_FILTERED = {"Conv1D": (0, 1), "Conv2D": (0, 1), "Conv3D": (0, 1), "DepthwiseConv2dNative": (0, 1)}
_TO_INPUT = ("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput")
_TO_FILTER = ("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter")


def _on_first_axis(given: Fact) -> bool:
    return given.kind is FactKind.SPLIT and given.axis == 0


@rule(*_FILTERED)
def _convolved(step: GraphStep) -> Fact:
    rows, kernel = step.ins
    scaled = _product(step, (0, 1))
    if step.all_replicated():
        return step.replicated(scaled)
    if _on_first_axis(rows) and kernel.kind is FactKind.REPLICATED:
        return step.split(scaled, 0, rows=rows.rows)
    if {rows.kind, kernel.kind} == {FactKind.PARTIAL, FactKind.REPLICATED}:
        return step.partial(scaled)
    return step.unknown("a convolution that means nothing for all replicas together")


@rule(*_TO_INPUT)
def _convolved_back(step: GraphStep) -> Fact:
    sizes, kernel, gradient = step.ins
    scale = kernel.scale * gradient.scale
    # How long the result is follows from the gradient.
    scaled = scale, step.term((Fraction(1), kernel.term), (Fraction(1), gradient.term), also=step.shape_of(gradient))
    if kernel.kind is FactKind.REPLICATED and _on_first_axis(gradient):
        dimensions = step.shape()
        if dimensions is None or None in dimensions[1:]:
            return step.unknown("the size of the images is not known", ruleless=True)
        scaled = scale, step.term((Fraction(1), kernel.term), (Fraction(1), gradient.term), also=dimensions[1:])
        return step.split(scaled, 0, rows=gradient.rows, of=(kernel, gradient))
    if step.all_replicated():
        return step.replicated((scale, step.term(sizes, (Fraction(1), kernel.term), (Fraction(1), gradient.term))))
    return step.unknown("a convolution that means nothing for all replicas together")


@rule(*_TO_FILTER)
def _convolved_to_filter(step: GraphStep) -> Fact:
    rows, sizes, gradient = step.ins
    scaled = (
        rows.scale * gradient.scale,
        step.term((Fraction(1), rows.term), sizes, (Fraction(1), gradient.term)),
    )
    if step.all_replicated():
        return step.replicated(scaled)
    if sizes.kind is FactKind.REPLICATED and _on_first_axis(rows) and _on_first_axis(gradient):
        return step.partial(scaled)
    return step.unknown("a convolution that means nothing for all replicas together")


@rule("BiasAdd")
def _biased(step: GraphStep) -> Fact:
    rows, bias = step.ins
    form = step.node.attributes.get("data_format", "NHWC")
    if bias.kind is FactKind.REPLICATED and rows.kind in (FactKind.SPLIT, FactKind.REPLICATED):
        if rows.rank and rows.kind is FactKind.SPLIT and rows.axis == (1 if form == "NCHW" else rows.rank - 1):
            return step.unknown("a bias for each example")
        return step.like(rows, step.once(*step.ins))
    return step.unknown("a bias is added to parts of a sum")


@rule("BiasAddGrad")
def _bias_gradient(step: GraphStep) -> Fact:
    (given,) = step.ins
    scaled = given.scale, step.term((Fraction(1), given.term), also=step.shape_of(given))
    if given.kind in (FactKind.REPLICATED, FactKind.PARTIAL):
        return step.like(given, scaled)
    form = step.node.attributes.get("data_format", "NHWC")
    if given.kind is FactKind.SPLIT and given.rank and given.axis != (1 if form == "NCHW" else given.rank - 1):
        return step.partial(scaled)
    return step.unknown("a sum of which the replicas have parts that mean nothing together")


# By the first axis each row by itself, linear in the operands at these places, which have rows as others have.
_BY_ROWS: dict[str, tuple[int, ...]] = {
    "AvgPool": (0,),
    "MaxPool": (),
    "MaxPoolGrad": (2,),
    "MaxPoolGradGrad": (2,),
    "LRN": (),
    "ResizeBilinear": (0,),
    "ResizeNearestNeighbor": (0,),
    "DepthToSpace": (0,),
    "SpaceToDepth": (0,),
    "L2Normalize": (),
}


@rule(*_BY_ROWS)
def _by_rows(step: GraphStep) -> Fact:
    scaled = _product(step, _BY_ROWS[step.node.type])
    if step.all_replicated():
        return step.replicated(scaled)
    images = [each for each in step.ins if each.kind is not FactKind.REPLICATED]
    if all(map(_on_first_axis, images)) and all(
        each.rank != 4 for each in step.ins if each.kind is FactKind.REPLICATED
    ):
        return step.split(scaled, 0, rows=images[0].rows)
    return step.unknown("it means nothing for all replicas together")


@rule("AvgPoolGrad")
def _average_pool_gradient(step: GraphStep) -> Fact:
    _, gradient = step.ins
    shape = step.shape()
    if _on_first_axis(gradient) and shape is not None and None not in shape[1:]:
        scaled = gradient.scale, step.term((Fraction(1), gradient.term), also=shape[1:])
        return step.split(scaled, 0, rows=gradient.rows, of=(gradient,))
    if step.all_replicated():
        return step.replicated((gradient.scale, step.term(step.ins[0], (Fraction(1), gradient.term))))
    return step.unknown("it means nothing for all replicas together")
