"""Operations that treat each element by itself: what is split stays split, and parts of a sum pass what is linear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import GraphStep, rule
from harness.relations.terms import ROWS, Scaled

# Any function of one element.
_UNARY = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BesselI0e",
    "BesselI1e",
    "Ceil",
    "Cos",
    "Cosh",
    "Digamma",
    "Elu",
    "Erf",
    "Erfc",
    "Erfinv",
    "Exp",
    "Expm1",
    "Floor",
    "Inv",
    "Invert",
    "IsFinite",
    "IsInf",
    "IsNan",
    "Lgamma",
    "Log",
    "Log1p",
    "LogicalNot",
    "Ndtri",
    "Reciprocal",
    "Relu",
    "Relu6",
    "Rint",
    "Round",
    "Rsqrt",
    "Selu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Square",
    "Tan",
    "Tanh",
    "LeakyRelu",
]
# Any function of several elements that stand at the same place.
_SEVERAL = [
    "Atan2",
    "Equal",
    "FloorMod",
    "Greater",
    "GreaterEqual",
    "Less",
    "LessEqual",
    "LogicalAnd",
    "LogicalOr",
    "Maximum",
    "Minimum",
    "Mod",
    "NotEqual",
    "Pow",
    "SquaredDifference",
    "TruncateMod",
    "Xdivy",
    "Xlog1py",
    "Xlogy",
    "Zeta",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "LeftShift",
    "RightShift",
    "ApproximateEqual",
    "ClipByValue",
    "FloorDiv",
    "TruncateDiv",
    "NextAfter",
    "Igamma",
    "Igammac",
]
# Gradients that are linear in the operand at this place.
_LINEAR_IN = {
    "EluGrad": 0,
    "LeakyReluGrad": 0,
    "Relu6Grad": 0,
    "ReluGrad": 0,
    "SeluGrad": 0,
    "SoftplusGrad": 0,
    "SoftsignGrad": 0,
    "InvGrad": 1,
    "ReciprocalGrad": 1,
    "RsqrtGrad": 1,
    "SigmoidGrad": 1,
    "SqrtGrad": 1,
    "TanhGrad": 1,
}
_SAME = [
    "Identity",
    "Snapshot",
    "StopGradient",
    "PreventGradient",
    "CheckNumerics",
    "DebugGradientIdentity",
    "EnsureShape",
    # On a mesh a layout changes no value.
    "Relayout",
    "CopyToMesh",
]


def aligned_axis(step: GraphStep, among: Sequence[Fact] | None = None) -> int | None:
    """The axis of the result along which the examples are, where operands of different ranks are aligned at the end.

    None where they lie along different axes, or where something that everybody has could have their length as well.
    """
    given = step.ins if among is None else among
    result = step.shape()
    if result is None or any(each.rank is None for each in given):
        return None
    split = [each for each in given if each.kind is FactKind.SPLIT]
    places = {each.axis - len(each.shape or ()) for each in split}
    if len(places) != 1:
        return None
    (place,) = places
    for each in given:
        shape = each.shape or ()
        if each.kind is FactKind.SPLIT:
            continue
        if len(shape) >= -place and shape[place] != 1:
            return None
    return len(result) + place


def nonlinear(step: GraphStep) -> Fact:
    """Of operands that are split or everybody's."""
    if step.all_replicated():
        return step.replicated(step.once(*step.ins))
    if any(kind not in (FactKind.SPLIT, FactKind.REPLICATED) for kind in step.kinds):
        return step.unknown(_why(step))
    if (axis := aligned_axis(step)) is None:
        return step.unknown(
            "the operands have their examples along different axes, or as many rows as there are examples"
        )
    return step.split(step.once(*step.ins), axis, rows=_rows(step), also=step.alike_long())


def _why(step: GraphStep) -> str:
    if FactKind.PARTIAL in step.kinds:
        return "a function that is not linear, of a part of a sum over the replicas"
    if FactKind.ROWS in step.kinds or FactKind.SHAPE in step.kinds:
        return "it depends on how many examples the replica has"
    return "it has no meaning for these operands"


def _rows(step: GraphStep) -> Scaled | None:
    found = {each.rows for each in step.ins if each.kind is FactKind.SPLIT}
    return found.pop() if len(found) == 1 else None


@rule(*_UNARY)
def _unary(step: GraphStep) -> Fact:
    return nonlinear(step)


@rule(*(name for name in _SEVERAL if name not in ("Equal", "FloorDiv", "Maximum")), "SelectV2", "Select")
def _several(step: GraphStep) -> Fact:
    return nonlinear(step)


@rule("Equal")
def _equal(step: GraphStep) -> Fact:
    """The largest and the smallest number of examples of a replica are the same, while shards are even."""
    inner = [each.inner for each in step.ins if each.kind is FactKind.EXTREME and each.inner is not None]
    if len(inner) == 2 and inner[0].kind is inner[1].kind is FactKind.ROWS and inner[0].scaled == inner[1].scaled:
        import numpy as np

        return replace(step.replicated(step.once(of="true"), also=[step.even()]), value=np.asarray(True))
    return nonlinear(step)


@rule("Maximum")
def _maximum(step: GraphStep) -> Fact:
    """The number of examples, or 1: the former where there is one."""
    for counted, other in (step.ins, step.ins[::-1]):
        if not counts(step, counted) or other.value is None or other.value.ndim or counted.scale < 1:
            continue
        if other.value in (0, 1):
            return step.fact(FactKind.ROWS, counted.scaled, also=[step.nonempty()] if other.value else ())
    return nonlinear(step)


_LENGTHS = ("length", "rows of")


def counts(step: GraphStep, given: Fact) -> bool:
    """Whether it is a multiple of a length that follows the replica's examples: a whole number, which is not 0."""
    return given.kind is FactKind.ROWS and (given.term == ROWS or step.terms.form(given.term)[0] in _LENGTHS)


@rule("FloorDiv")
def _floor_divided(step: GraphStep) -> Fact:
    """Of counts, where nothing is left over."""
    above, below = step.ins
    if counts(step, above) and below.kind is FactKind.REPLICATED and below.value is not None and below.value.ndim == 0:
        number = int(below.value)
        if number > 0 and number == below.value and (above.scale / number).denominator == 1:
            return step.fact(FactKind.ROWS, (above.scale / number, above.term))
    if above.kind is below.kind is FactKind.ROWS and above.term == below.term and below.scale:
        quotient = above.scale / below.scale
        if quotient.denominator == 1:
            return step.replicated((quotient, 0), also=[step.nonempty()])
    return nonlinear(step)


@rule(*_LINEAR_IN)
def _gradient(step: GraphStep) -> Fact:
    place = _LINEAR_IN[step.node.type]
    linear, other = step.ins[place], step.ins[1 - place]
    plain = [(Fraction(1), each.term) if at == place else each.scaled for at, each in enumerate(step.ins)]
    scaled = (linear.scale, step.term(*plain))
    if linear.kind is FactKind.PARTIAL and other.kind is FactKind.REPLICATED:
        return step.partial(scaled)
    found = nonlinear(step)
    return found if found.unknown else step.like(found, scaled, also=found.conditions)


@rule("Neg")
def _negative(step: GraphStep) -> Fact:
    (given,) = step.ins
    if given.kind in (FactKind.SPLIT, FactKind.REPLICATED, FactKind.PARTIAL):
        return step.like(given, (-given.scale, given.term))
    return step.partial((-given.scale, given.term)) if given.kind is FactKind.ROWS else nonlinear(step)


@rule(*_SAME)
def _same(step: GraphStep) -> Fact:
    (given,) = step.ins
    return given


@rule("IdentityN")
def _all_the_same(step: GraphStep) -> tuple[Fact, ...]:
    return step.ins


@rule("ZerosLike", "OnesLike")
def _of_the_shape(step: GraphStep) -> Fact:
    """Depends on the shape alone, which everybody has of a part of a sum."""
    (given,) = step.ins
    shape = step.shape()
    if shape == ():
        return step.replicated((Fraction(step.node.type == "OnesLike"), 0))
    if given.kind in (FactKind.PARTIAL, FactKind.REPLICATED) and shape is not None and None not in shape:
        zeros = (Fraction(0), 0)
        return step.replicated(
            zeros if step.node.type == "ZerosLike" else (Fraction(1), step.terms.made("ones", shape))
        )
    if given.kind is FactKind.SPLIT:
        if step.node.type == "ZerosLike":
            return step.split((Fraction(0), 0), given.axis, rows=given.rows)
        return step.split(step.once((Fraction(1), given.term)), given.axis, rows=given.rows)
    return nonlinear(step)
