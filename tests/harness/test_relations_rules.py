"""Every rule against numbers, on uneven and empty shards; and rules that are wrong, which the same check finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.evidence.step_graph import GraphNode
from harness.relations.facts import NONEMPTY, Fact, FactKind, ProofCondition
from harness.relations.protocol import GraphStep, Rule, World
from harness.relations.rules import all_rules
from harness.relations.terms import ROWS, Terms, rational
from tests.harness._relating import KINDS, Case, Drawing, Operand, alone_of, broken, is_possible

_DRAWS = 150


def _kinds(drawing: Drawing, count: int) -> list[FactKind]:
    return [drawing.pick(KINDS) for _ in range(count)]


def _case(drawing: Drawing, kind: str, operands: list[Operand], compute: Callable[..., Any], **attributes: Any) -> Case:
    return Case(kind, tuple(operands), attributes, drawing.shares, compute)


_UNARY: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Exp": np.exp,
    "Neg": np.negative,
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Sign": np.sign,
    "Square": np.square,
    "Tanh": np.tanh,
    "Identity": lambda x: x,
    "ZerosLike": np.zeros_like,
    "OnesLike": np.ones_like,
    "L2Loss": lambda x: np.sum(x**2) / 2,
}
_BINARY: dict[str, Callable[..., Any]] = {
    "AddV2": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "RealDiv": np.divide,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "SquaredDifference": lambda x, y: (x - y) ** 2,
    "Greater": lambda x, y: (x > y) * 1.0,
    "ReluGrad": lambda dy, x: dy * (x > 0),
    "TanhGrad": lambda y, dy: dy * (1 - y * y),
    # In the operands' own dtype: older NumPy joins bfloat16 and whole numbers in none.
    "DivNoNan": lambda x, y: np.where(y == 0, np.zeros_like(y), np.divide(x, np.where(y == 0, np.ones_like(y), y))),
}


def _mean(values: Any, axis: Any, keepdims: bool) -> Any:
    """Of nothing it is no number, as TensorFlow's."""
    total = np.sum(values, axis=axis, keepdims=keepdims)
    count = np.sum(np.ones_like(values), axis=axis, keepdims=keepdims)
    with np.errstate(all="ignore"):
        return total / count


_REDUCING: dict[str, Callable[..., Any]] = {
    "Sum": np.sum,
    "Mean": _mean,
    "Max": np.max,
    "Min": np.min,
    "Prod": np.prod,
}


def _unary(drawing: Drawing) -> Case:
    kind = drawing.pick(sorted(_UNARY))
    axis = int(drawing.random.integers(2))
    operand = drawing.operand(drawing.pick(KINDS), (3,), axis)
    return _case(drawing, kind, [operand], _UNARY[kind])


def _binary(drawing: Drawing) -> Case:
    kind = drawing.pick(sorted(_BINARY))
    one, other = _kinds(drawing, 2)
    shapes = drawing.pick([((3,), (3,)), ((3,), ()), ((1,), (3,))])
    axis = int(drawing.random.integers(2))
    operands = [
        drawing.operand(each, shape, axis if shape else 0, positive=kind in ("RealDiv", "DivNoNan"))
        for each, shape in zip((one, other), shapes, strict=True)
    ]
    if drawing.random.integers(4) == 0:
        operands[int(drawing.random.integers(2))] = drawing.counted()
    return _case(drawing, kind, operands, _BINARY[kind])


def _reducing(drawing: Drawing) -> Case:
    kind = drawing.pick(sorted(_REDUCING))
    axis = int(drawing.random.integers(3))
    operand = drawing.operand(drawing.pick(KINDS), (2, 3), axis)
    over = sorted({int(each) for each in drawing.random.integers(0, operand.whole.ndim, 2)})
    keep = bool(drawing.random.integers(2))
    reduce = _REDUCING[kind]

    def compute(x: Any, axes: Any) -> Any:
        if kind in ("Max", "Min") and not x.size:
            return np.full_like(np.sum(x, axis=tuple(over), keepdims=keep), np.nan)
        return reduce(x, axis=tuple(over), keepdims=keep)

    return _case(drawing, kind, [operand, drawing.constant(np.asarray(over, np.int32))], compute, keep_dims=keep)


def _matmul(drawing: Drawing) -> Case:
    one, other = _kinds(drawing, 2)
    turn = [bool(each) for each in drawing.random.integers(0, 2, 2)]
    rows = [int(each) for each in drawing.random.integers(0, 2, 2)]
    inner = drawing.rows if drawing.random.integers(2) else 3
    operands = []
    for kind, turned, axis, first in ((one, turn[0], rows[0], True), (other, turn[1], rows[1], False)):
        contracted = int(turned == first) if first else int(turned)
        contracted = (0 if turned else 1) if first else (1 if turned else 0)
        if kind is FactKind.SPLIT:
            length = inner if axis != contracted else 4
            operands.append(drawing.operand(kind, (length,), axis))
        else:
            shape = (inner, 4) if contracted == 0 else (4, inner)
            operands.append(drawing.operand(kind, shape))

    def compute(x: Any, y: Any) -> Any:
        return (x.T if turn[0] else x) @ (y.T if turn[1] else y)

    return _case(drawing, "MatMul", operands, compute, transpose_a=turn[0], transpose_b=turn[1])


def _gather(drawing: Drawing) -> Case:
    table = drawing.operand(drawing.pick(KINDS), (4, 2) if drawing.random.integers(2) else (4,), 1)
    index = drawing.operand(drawing.pick((FactKind.SPLIT, FactKind.REPLICATED)), (2,))
    whole = np.abs(index.whole * 7).astype(int) % 4
    ends = np.cumsum(drawing.shares)[:-1]
    split = index.fact.kind is FactKind.SPLIT
    parts = tuple(np.split(whole, ends)) if split else (whole,) * drawing.replicas
    fact = Fact(index.fact.kind, index.fact.term, rows=index.fact.rows, shape=index.fact.shape)
    numbers = Operand(fact, parts, whole)

    def compute(x: Any, at: Any, axis: Any) -> Any:
        return np.take(x, at, axis=0)

    return _case(drawing, "GatherV2", [table, numbers, drawing.constant(np.int32(0))], compute)


def _segments(drawing: Drawing) -> Case:
    kind = drawing.pick((FactKind.SPLIT, FactKind.REPLICATED, FactKind.PARTIAL))
    data = drawing.operand(kind, (2,) if kind is FactKind.SPLIT else (drawing.rows, 2))
    base = drawing.operand(
        FactKind.SPLIT if kind is FactKind.SPLIT else FactKind.REPLICATED,
        () if kind is FactKind.SPLIT else (drawing.rows,),
    )
    whole = np.abs(base.whole * 7).astype(int) % 4
    parts = (
        tuple(np.split(whole, np.cumsum(drawing.shares)[:-1]))
        if base.fact.kind is FactKind.SPLIT
        else (whole,) * drawing.replicas
    )
    index = Operand(Fact(base.fact.kind, base.fact.term, rows=base.fact.rows, shape=base.fact.shape), parts, whole)

    def compute(x: Any, at: Any, count: Any) -> Any:
        found = np.zeros((4, 2))
        np.add.at(found, at, x)
        return found

    return _case(drawing, "UnsortedSegmentSum", [data, index, drawing.constant(np.int32(4))], compute)


def _moving(drawing: Drawing) -> Case:
    axis = int(drawing.random.integers(3))
    operand = drawing.operand(drawing.pick(KINDS), (2, 3), axis)
    rank = operand.whole.ndim
    kind = drawing.pick(("Transpose", "ExpandDims", "ReverseV2", "Cumsum", "Softmax"))
    if kind == "Transpose":
        order = drawing.random.permutation(rank)
        return _case(
            drawing, kind, [operand, drawing.constant(order.astype(np.int32))], lambda x, _: np.transpose(x, order)
        )
    at = int(drawing.random.integers(rank))
    if kind == "Softmax":
        return _case(drawing, kind, [operand], lambda x: np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True))
    compute: dict[str, Callable[..., Any]] = {
        "ExpandDims": lambda x, _: np.expand_dims(x, at),
        "ReverseV2": lambda x, _: np.flip(x, at),
        "Cumsum": lambda x, _: np.cumsum(x, at),
    }
    where = np.int32(at) if kind != "ReverseV2" else np.asarray([at], np.int32)
    return _case(drawing, kind, [operand, drawing.constant(where)], compute[kind])


def _joining(drawing: Drawing) -> Case:
    axis = int(drawing.random.integers(2))
    kinds = _kinds(drawing, 2) if drawing.random.integers(2) else [drawing.pick(KINDS)] * 2
    operands = [drawing.operand(kind, (3,) if kind is FactKind.SPLIT else (2, 3), axis) for kind in kinds]
    kind = drawing.pick(("ConcatV2", "Pack"))
    if kind == "Pack":
        at = int(drawing.random.integers(3))
        return _case(drawing, kind, operands, lambda x, y: np.stack([x, y], at), axis=at)
    at = int(drawing.random.integers(2))
    return _case(
        drawing,
        kind,
        [*operands, drawing.constant(np.int32(at))],
        lambda x, y, _: np.concatenate([x, y], at),
    )


def _casting(drawing: Drawing) -> Case:
    """Whole numbers that may wrap around, and counts that may be rounded."""
    target = drawing.pick(("int8", "uint8", "int16", "int32", "int64", "float32"))
    if drawing.random.integers(2):
        scale, source = drawing.pick((Fraction(1), Fraction(60), Fraction(1, 2))), "float64"
        operand = drawing.counted(scale)
    else:
        source = drawing.pick(("int8", "uint8", "int32", "int64"))
        operand = drawing.whole(drawing.pick(KINDS), source)

    def compute(x: Any) -> Any:
        return (x if target == "float32" else x.astype("int64")).astype(target).astype("float64")

    return _case(drawing, "Cast", [operand], compute, SrcT=source, DstT=target)


def _whole_means(drawing: Drawing) -> Case:
    operand = drawing.whole(drawing.pick(KINDS), "int32", int(drawing.random.integers(2)))
    over = int(drawing.random.integers(2))

    def compute(x: Any, _: Any) -> Any:
        return np.trunc(_mean(x * 1.0, over, keepdims=False))

    return replace(_case(drawing, "Mean", [operand, drawing.constant(np.asarray([over]))], compute), dtype="int32")


def _filling(drawing: Drawing) -> Case:
    """As often as there are examples, or at least once."""
    least = int(drawing.random.integers(2))
    counted = drawing.counted(Fraction(1))
    conditions = frozenset({ProofCondition(NONEMPTY)} if least else ())
    part = replace(counted.fact, conditions=conditions)
    fact = replace(part, kind=FactKind.SHAPE, shape=(1,), parts=(part,))
    parts = tuple(np.maximum(each, least).reshape(1) for each in counted.parts)
    length = Operand(fact, parts, counted.whole.reshape(1))
    value = drawing.operand(FactKind.REPLICATED, ())

    def compute(dims: Any, x: Any) -> Any:
        return np.full(int(dims[0]), x)

    return _case(drawing, "Fill", [length, value], compute)


_FAMILIES = {
    "unary": _unary,
    "binary": _binary,
    "reducing": _reducing,
    "matmul": _matmul,
    "gather": _gather,
    "segments": _segments,
    "moving": _moving,
    "joining": _joining,
    "filling": _filling,
    "casting": _casting,
    "whole means": _whole_means,
}


def _tried(family: str, seed: int, rules: dict[str, Rule] | None = None) -> str | None:
    """What is broken, None if it holds, an empty string if there is nothing to compare."""
    drawing = Drawing(seed)
    case = _FAMILIES[family](drawing)
    if not is_possible(case, drawing):
        return ""
    return broken(case, drawing, rules)


@pytest.mark.parametrize("family", _FAMILIES)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=_DRAWS, deadline=None)
def test_rules_hold(family: str, seed: int) -> None:
    """Whatever a rule claims of an operation is so in numbers."""
    found = _tried(family, seed)
    assert not found, found


@pytest.mark.parametrize("family", _FAMILIES)
def test_rules_claim_something(family: str) -> None:
    """Of what is drawn a good part is claimed, so that the check above is no empty one."""
    counts = Counter(_tried(family, seed) for seed in range(_DRAWS))
    assert counts[None] >= _DRAWS // 8, counts


def _wrong(kind: str, change: Callable[[GraphStep, Fact], Fact]) -> tuple[str, Rule]:
    right = all_rules()[kind]

    def rule(step: GraphStep) -> Fact:
        result = right(step)
        return change(step, result if isinstance(result, Fact) else result[0])

    return kind, rule


def _as(kind: FactKind, when: FactKind) -> Callable[[GraphStep, Fact], Fact]:
    """Takes a value for one of a kind where an operand is of another one."""

    def change(step: GraphStep, found: Fact) -> Fact:
        if step.replicas > 1 and step.ins[0].kind is when:
            alone = GraphStep(step.node, tuple(alone_of(each) for each in step.ins), type(step.world)(1, step.terms))
            told = all_rules()[step.node.type](alone)
            told = told if isinstance(told, Fact) else told[0]
            return Fact(kind, told.term, told.scale, shape=told.shape, axis=0)
        return found

    return change


def _scaled(factor: int) -> Callable[[GraphStep, Fact], Fact]:
    def change(step: GraphStep, found: Fact) -> Fact:
        return replace(found, scale=found.scale * factor) if step.replicas > 1 else found

    return change


def _unconditional(step: GraphStep, found: Fact) -> Fact:
    return replace(found, conditions=frozenset())


def _as_if_not_rounded(step: GraphStep, found: Fact) -> Fact:
    """A mean of whole numbers is taken for one of others."""
    told = all_rules()[step.node.type](replace(step, node=msgspec.structs.replace(step.node, dtypes=("float32",))))
    return told if isinstance(told, Fact) else told[0]


@pytest.mark.parametrize(
    ("family", "kind", "change"),
    [
        ("unary", "Square", _as(FactKind.PARTIAL, FactKind.PARTIAL)),
        ("unary", "L2Loss", _as(FactKind.PARTIAL, FactKind.PARTIAL)),
        ("unary", "L2Loss", _as(FactKind.REPLICATED, FactKind.SPLIT)),
        ("unary", "OnesLike", _as(FactKind.PARTIAL, FactKind.PARTIAL)),
        ("binary", "Mul", _as(FactKind.PARTIAL, FactKind.PARTIAL)),
        ("binary", "AddV2", _as(FactKind.SPLIT, FactKind.PARTIAL)),
        ("binary", "Maximum", _as(FactKind.PARTIAL, FactKind.PARTIAL)),
        ("binary", "RealDiv", _unconditional),
        ("binary", "TanhGrad", _as(FactKind.PARTIAL, FactKind.PARTIAL)),
        ("reducing", "Mean", _unconditional),
        ("reducing", "Mean", _scaled(2)),
        ("reducing", "Sum", _as(FactKind.REPLICATED, FactKind.SPLIT)),
        ("reducing", "Max", _as(FactKind.REPLICATED, FactKind.SPLIT)),
        ("matmul", "MatMul", _as(FactKind.REPLICATED, FactKind.SPLIT)),
        ("matmul", "MatMul", _scaled(2)),
        ("gather", "GatherV2", _as(FactKind.SPLIT, FactKind.PARTIAL)),
        ("segments", "UnsortedSegmentSum", _as(FactKind.REPLICATED, FactKind.SPLIT)),
        ("moving", "Cumsum", _as(FactKind.SPLIT, FactKind.SPLIT)),
        ("moving", "Softmax", _as(FactKind.SPLIT, FactKind.SPLIT)),
        ("joining", "ConcatV2", _as(FactKind.SPLIT, FactKind.SPLIT)),
        ("filling", "Fill", _unconditional),
        ("casting", "Cast", _as(FactKind.PARTIAL, FactKind.PARTIAL)),
        ("casting", "Cast", _as(FactKind.ROWS, FactKind.ROWS)),
        ("whole means", "Mean", _as_if_not_rounded),
    ],
)
def test_wrong_rules_are_found(family: str, kind: str, change: Callable[[GraphStep, Fact], Fact]) -> None:
    """The same check finds a rule that claims too much."""
    rules = dict([_wrong(kind, change)])
    assert any(_tried(family, seed, rules) for seed in range(20 * _DRAWS))


def _stacked(kind: str, shape: tuple[int, ...], inner: Fact, *, stack: int = 2) -> Fact:
    """The largest, or the smallest, of the replicas' values."""
    terms = Terms()
    axis = Drawing(0).constant(np.asarray([0], np.int32)).fact
    node = GraphNode(kind, "op", shapes=(shape,), dtypes=("int32",))
    found = all_rules()[kind](
        GraphStep(node, (Fact(FactKind.STACKED, shape=(stack, *shape), inner=inner), axis), World(2, terms))
    )
    return found if isinstance(found, Fact) else found[0]


def test_the_largest_of_the_replicas_values_is_not_all_of_them() -> None:
    """Whatever is asked of it, but whether it is the smallest as well: nothing is known."""
    inner = Fact(FactKind.ROWS, ROWS, shape=())
    largest, smallest = _stacked("Max", (), inner), _stacked("Min", (), inner)
    drawing = Drawing(0)
    world = World(2, drawing.terms)
    axis = drawing.constant(np.asarray([0], np.int32)).fact
    for kind in ("Sum", "Mean", "AddV2", "Mul", "RealDiv", "Maximum", "Cast", "Reshape", "CollectiveReduceV2"):
        for other in (axis, largest):
            node = GraphNode(
                kind, "op", attributes={"merge_op": "Add", "DstT": "int32"}, shapes=((),), dtypes=("int32",)
            )
            found = all_rules()[kind](GraphStep(node, (largest, other)[: 1 if kind == "Cast" else 2], world))
            found = found if isinstance(found, Fact) else found[0]
            assert found.kind in (FactKind.UNKNOWN, FactKind.EXTREME), (kind, found)
    equal = all_rules()["Equal"](GraphStep(GraphNode("Equal", "op", shapes=((),)), (largest, smallest), world))
    assert isinstance(equal, Fact)
    assert [each.what for each in equal.conditions] == ["even shards"]


def test_the_largest_of_vectors_is_not_known() -> None:
    """Only of numbers."""
    assert _stacked("Max", (3,), Fact(FactKind.PARTIAL, ROWS, shape=(3,))).kind is FactKind.UNKNOWN


def test_a_mean_over_replicas_of_whole_numbers_is_rounded() -> None:
    """Where each has a part of it; what everybody has stays what it is."""
    size = Drawing(0).constant(np.int32(2)).fact
    for dtype, kind, known in (
        ("int32", FactKind.PARTIAL, False),
        ("float32", FactKind.PARTIAL, True),
        ("int32", FactKind.REPLICATED, True),
    ):
        node = GraphNode(
            "CollectiveReduceV2", "op", attributes={"merge_op": "Add", "final_op": "Div"}, shapes=((),), dtypes=(dtype,)
        )
        found = all_rules()["CollectiveReduceV2"](
            GraphStep(node, (Fact(kind, ROWS, shape=()), size), World(2, Terms()))
        )
        assert isinstance(found, Fact)
        assert (found.kind is not FactKind.UNKNOWN) is known


def _by(world: World, kind: str, shape: tuple[int | None, ...], *given: Fact, **attributes: Any) -> Fact:
    found = all_rules()[kind](
        GraphStep(GraphNode(kind, "op", attributes=attributes, shapes=(shape,), dtypes=("int32",)), given, world)
    )
    return found if isinstance(found, Fact) else found[0]


def test_what_a_length_needs_is_needed_of_whatever_is_as_long() -> None:
    """A replica without examples counts as one: in sums, and in lengths again; of rows it is not needed."""
    drawing = Drawing(0)
    world = World(2, drawing.terms)
    one, zero = drawing.constant(np.int32(1)).fact, drawing.constant(np.asarray([0], np.int32)).fact
    count = _by(world, "Maximum", (), Fact(FactKind.ROWS, ROWS, shape=()), one)
    ones = _by(world, "Fill", (None,), _by(world, "Pack", (1,), count), one)
    doubled = _by(world, "Mul", (None,), ones, one)
    assert [each.what for each in _by(world, "Sum", (), doubled, zero).conditions] == [NONEMPTY]
    again = _by(world, "Shape", (1,), doubled)
    assert [each.what for each in again.parts[0].conditions] == [NONEMPTY]
    assert [each.what for each in _by(world, "Size", (), doubled).conditions] == [NONEMPTY]
    rows = drawing.operand(FactKind.SPLIT, (3,)).fact
    ratio = replace(one, conditions=frozenset({ProofCondition(NONEMPTY)}))
    assert not _by(world, "Mul", (None, 3), rows, ratio).conditions
    assert not _by(world, "Shape", (2,), replace(rows, conditions=frozenset({ProofCondition(NONEMPTY)}))).conditions


def test_numbers_that_are_known_under_a_condition_are_so_as_a_vector() -> None:
    """Where all of them are constants as well."""
    drawing = Drawing(0)
    known = replace(drawing.constant(np.int32(1)).fact, conditions=frozenset({ProofCondition(NONEMPTY)}))
    packed = _by(World(2, drawing.terms), "Pack", (2,), known, drawing.constant(np.int32(2)).fact)
    assert packed.value is not None
    assert [each.what for each in packed.conditions] == [NONEMPTY]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_number_is_taken_for_a_simple_fraction_that_is_rounded_to_it(dtype: str) -> None:
    """The next number is another one."""
    of = np.dtype(dtype).type
    for simple in (Fraction(1), Fraction(1, 10), Fraction(1, 3), Fraction(2, 7)):
        number = of(float(simple))
        assert rational(float(number), of) == simple
        after = float(np.nextafter(number, of(2.0)))
        assert rational(after, of) != simple
        constant = Drawing(0).constant(np.asarray(after, dtype)).fact
        assert constant.scale != simple
