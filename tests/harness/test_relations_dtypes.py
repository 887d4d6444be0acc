"""Rules against numbers of every dtype, and along many axes: coarse fractions, whole numbers that wrap around."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.relations.facts import EVEN, NONEMPTY, Fact, FactKind
from harness.relations.protocol import GraphStep, Rule
from tests.harness._relating import KINDS, Case, Drawing, Operand, broken, claim_of, is_possible
from tests.harness.test_relations_rules import (
    _FAMILIES,
    _as,
    _as_if_not_rounded,
    _scaled,
    _unconditional,
    _wrong,
)

_FRACTIONS = {"float16": 0.02, "bfloat16": 0.1, "float32": 1e-4, "float64": 1e-9}
"""By dtype what rounding may make of a value, next to the largest: some twenty times its eps, and far from a factor."""
_WHOLE = ("int8", "uint8", "int16", "int32", "int64", "uint32")
_DRAWS = 60
_QUICK = ("bfloat16", "int8")
_FRACTIONS_SEEN = [pytest.param(each, marks=() if each in _QUICK else pytest.mark.full) for each in _FRACTIONS]
_WHOLE_SEEN = [pytest.param(each, marks=() if each in _QUICK else pytest.mark.full) for each in _WHOLE]
_NOT_FRACTIONS = ("casting", "whole means", "filling")


def _type(name: str) -> Any:
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name).type


def _in(operand: Operand, dtype: str) -> Operand:
    """Its numbers in a dtype; places and sizes stay whole."""
    if operand.whole.dtype.kind != "f" or operand.fact.value is not None:
        return operand
    of = _type(dtype)
    return replace(operand, parts=tuple(each.astype(of) for each in operand.parts), whole=operand.whole.astype(of))


def _wide(drawing: Drawing) -> Case:
    """Four axes, the examples along any of them, and operands that are spread."""
    kinds = [drawing.pick(KINDS) for _ in range(2)]
    axis = int(drawing.random.integers(4))
    rest = [2, 3, 2]
    other = [length if drawing.random.integers(2) else 1 for length in rest]
    fewer = int(drawing.random.integers(3)) if kinds[1] is not FactKind.SPLIT else 0
    operands = [
        drawing.operand(kinds[0], rest if kinds[0] is FactKind.SPLIT else [*rest[:axis], 1, *rest[axis:]], axis)
    ]
    shape = other if kinds[1] is FactKind.SPLIT else [*other[:axis], 1, *other[axis:]][fewer:]
    operands.append(drawing.operand(kinds[1], shape, axis))
    kind = drawing.pick(("AddV2", "Sub", "Mul", "Maximum", "RealDiv"))
    if kind == "RealDiv":
        operands[1] = drawing.operand(kinds[1], shape, axis, positive=True)
    compute = {"AddV2": np.add, "Sub": np.subtract, "Mul": np.multiply, "Maximum": np.maximum, "RealDiv": np.divide}
    return Case(kind, tuple(operands), {}, drawing.shares, compute[kind])


def _batched(drawing: Drawing) -> Case:
    """Products of many matrices, with the examples along any axis of each."""
    turn = [bool(each) for each in drawing.random.integers(0, 2, 2)]
    inner = drawing.rows if drawing.random.integers(2) else 3
    shapes = [[2, 4, inner], [2, inner, 5]]
    shapes = [shape[:1] + shape[:0:-1] if turned else shape for shape, turned in zip(shapes, turn, strict=True)]
    if drawing.random.integers(3) == 0:
        shapes = [[drawing.rows, *shape[1:]] for shape in shapes]
    operands = []
    for shape in shapes:
        kind, axis = drawing.pick(KINDS), int(drawing.random.integers(3))
        given = [length for at, length in enumerate(shape) if at != axis] if kind is FactKind.SPLIT else shape
        operands.append(drawing.operand(kind, given, axis))

    def compute(x: Any, y: Any) -> Any:
        x, y = (np.swapaxes(each, 1, 2) if turned else each for each, turned in zip((x, y), turn, strict=True))
        return np.einsum("bij,bjk->bik", x.astype("f8"), y.astype("f8"))

    return Case("BatchMatMulV2", tuple(operands), {"adj_x": turn[0], "adj_y": turn[1]}, drawing.shares, compute)


_EQUATIONS = ("ab,bc->ac", "ab,ab->a", "ab,ab->", "ab,cb->ac", "abc,ab->ac", "abc->cab", "ab,b->a", "ab,ac->bc")


def _einsum(drawing: Drawing) -> Case:
    equation = drawing.pick(_EQUATIONS)
    names = equation.partition("->")[0].split(",")
    lengths = {"a": 2, "b": 3, "c": 4, str(drawing.pick("abc")): drawing.rows}
    operands = []
    for each in names:
        kind, axis = drawing.pick(KINDS), int(drawing.random.integers(len(each)))
        shape = [lengths[name] for at, name in enumerate(each) if kind is not FactKind.SPLIT or at != axis]
        operands.append(drawing.operand(kind, shape, axis))

    def compute(*given: Any) -> Any:
        return np.einsum(equation, *(each.astype("f8") for each in given))

    return Case("Einsum", tuple(operands), {"equation": equation}, drawing.shares, compute)


_ALL: dict[str, Callable[[Drawing], Case]] = {
    **{name: family for name, family in _FAMILIES.items() if name not in _NOT_FRACTIONS},
    "wide": _wide,
    "batched": _batched,
    "einsum": _einsum,
}


Change = Callable[[GraphStep, Fact], Fact]


def _fractions(family: str, dtype: str, seed: int, rules: dict[str, Rule] | None = None) -> str | None:
    drawing = Drawing(seed)
    case = _ALL[family](drawing)
    case = replace(case, operands=tuple(_in(each, dtype) for each in case.operands), dtype=dtype)
    if not is_possible(case, drawing):
        return ""
    with np.errstate(all="ignore"):
        made = [np.asarray(case.compute(*(each.parts[at] for each in case.operands))) for at in range(drawing.replicas)]
        # Parts may be much larger than what they add up to.
        largest = max(float(np.max(np.abs(np.nan_to_num(each.astype("f8"))), initial=1.0)) for each in made)

    def compute(*given: Any) -> Any:
        return np.asarray(case.compute(*given)).astype("f8") / largest

    return broken(replace(case, compute=compute), drawing, rules, _FRACTIONS[dtype])


_WHOLE_NUMBERS: dict[str, Callable[..., Any]] = {
    "AddV2": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Maximum": np.maximum,
    "Neg": np.negative,
    "Square": np.square,
    "Identity": lambda x: x,
    "ZerosLike": np.zeros_like,
    "Sum": lambda x, _: np.sum(x, 0, dtype=x.dtype),
    "Max": lambda x, _: np.max(x, 0) if len(x) else np.zeros(x.shape[1:], x.dtype),
    "Mean": lambda x, _: x.sum(0, dtype=x.dtype) // np.asarray(max(1, len(x))).astype(x.dtype),
    "Cumsum": lambda x, _: np.cumsum(x, 0, dtype=x.dtype),
    "Transpose": lambda x, _: np.transpose(x),
}
_TWO, _ALONG = (
    ("AddV2", "Sub", "Mul", "Maximum"),
    {"Sum": [0], "Max": [0], "Mean": [0], "Cumsum": 0, "Transpose": [1, 0]},
)


def _numbers(dtype: str, seed: int, rules: dict[str, Rule] | None = None, kind: str | None = None) -> str | None:
    """Whole numbers, of which a sum wraps around as that of its parts does."""
    drawing = Drawing(seed)
    kind = kind or drawing.pick(sorted(_WHOLE_NUMBERS))
    axis = int(drawing.random.integers(2))
    operands = [drawing.whole(drawing.pick(KINDS), dtype, axis) for _ in range(2 if kind in _TWO else 1)]
    if kind in _ALONG:
        operands.append(drawing.constant(np.asarray(_ALONG[kind], np.int32)))
    compute = _WHOLE_NUMBERS[kind]
    case = Case(kind, tuple(operands), {}, drawing.shares, compute, dtype)
    if not is_possible(case, drawing):
        return ""
    run, alone = claim_of(case, drawing, rules)
    factor = run.scale / alone.scale if alone.scale else Fraction(1, 2)
    if FactKind.UNKNOWN in (run.kind, alone.kind) or run.term != alone.term or factor.denominator > 1:
        return ""
    if {each.what for each in run.conditions} & {EVEN, NONEMPTY} and len(set(case.shares)) > 1:
        return ""
    parts = [compute(*(each.parts[at] for each in case.operands)).astype(object) for at in range(drawing.replicas)]
    expected = compute(*(each.whole for each in case.operands)).astype(object) * int(factor)
    if run.kind is FactKind.PARTIAL and len({each.shape for each in parts}) > 1:
        return "the parts cannot be added"
    if run.kind is not FactKind.REPLICATED:
        parts = [sum(parts) if run.kind is FactKind.PARTIAL else np.concatenate(parts, run.axis)]
    modulus = 2 ** (8 * np.dtype(dtype).itemsize)
    alike = all(each.shape == expected.shape and not ((each - expected) % modulus).any() for each in parts)
    return None if alike else f"{kind}: {run.kind.value} is not what there is"


@pytest.mark.parametrize("dtype", _FRACTIONS_SEEN)
@pytest.mark.parametrize("family", _ALL)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=_DRAWS, deadline=None)
def test_rules_hold_in_every_dtype(family: str, dtype: str, seed: int) -> None:
    """Up to rounding; float32 and float64 among them."""
    found = _fractions(family, dtype, seed)
    assert not found, found


@pytest.mark.parametrize("dtype", _WHOLE_SEEN)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=2 * _DRAWS, deadline=None)
def test_rules_hold_for_whole_numbers(dtype: str, seed: int) -> None:
    """Which wrap around: then parts still add up to what the sum has wrapped around to."""
    found = _numbers(dtype, seed)
    assert not found, found


def test_something_is_claimed() -> None:
    """In every dtype, of new families and of whole numbers, so that the checks above are no empty ones."""
    for dtype in _FRACTIONS:
        for family in _ALL:
            counts = Counter(_fractions(family, dtype, seed) for seed in range(_DRAWS))
            assert counts[None] >= _DRAWS // 10, (dtype, family, counts)
    for dtype in _WHOLE:
        counts = Counter(_numbers(dtype, seed) for seed in range(2 * _DRAWS))
        assert counts[None] >= _DRAWS // 4, (dtype, counts)


_WRONG: tuple[tuple[str, str, Change], ...] = (
    ("unary", "Square", _as(FactKind.PARTIAL, FactKind.PARTIAL)),
    ("binary", "Mul", _as(FactKind.PARTIAL, FactKind.PARTIAL)),
    ("reducing", "Mean", _unconditional),
    ("matmul", "MatMul", _scaled(2)),
    ("moving", "Softmax", _as(FactKind.SPLIT, FactKind.SPLIT)),
    ("wide", "AddV2", _as(FactKind.SPLIT, FactKind.PARTIAL)),
    ("wide", "Mul", _scaled(2)),
    ("batched", "BatchMatMulV2", _as(FactKind.REPLICATED, FactKind.SPLIT)),
    ("einsum", "Einsum", _as(FactKind.REPLICATED, FactKind.SPLIT)),
)


@pytest.mark.parametrize("dtype", _FRACTIONS_SEEN)
@pytest.mark.parametrize(("family", "kind", "change"), _WRONG)
def test_wrong_rules_are_found_in_every_dtype(dtype: str, family: str, kind: str, change: Change) -> None:
    """However coarse it is."""
    rules = dict([_wrong(kind, change)])
    assert any(_fractions(family, dtype, seed, rules) for seed in range(40 * _DRAWS))


@pytest.mark.parametrize("dtype", _WHOLE_SEEN)
@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Square", _as(FactKind.PARTIAL, FactKind.PARTIAL)),
        ("Mul", _as(FactKind.PARTIAL, FactKind.PARTIAL)),
        ("Maximum", _as(FactKind.PARTIAL, FactKind.PARTIAL)),
        ("Sum", _scaled(3)),
        ("Mean", _as_if_not_rounded),
        ("Cumsum", _as(FactKind.SPLIT, FactKind.SPLIT)),
    ],
)
def test_wrong_rules_are_found_for_whole_numbers(dtype: str, kind: str, change: Change) -> None:
    """Also where they wrap around."""
    rules = dict([_wrong(kind, change)])
    assert any(_numbers(dtype, seed, rules, kind) for seed in range(20 * _DRAWS))
