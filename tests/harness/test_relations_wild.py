"""Rules that programs of others asked for: against numbers on uneven and empty shards, and wrong ones are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.evidence.step_graph import GraphNode
from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import GraphStep, Rule, World
from harness.relations.rules import all_rules
from harness.relations.terms import ROWS
from tests.harness._relating import KINDS, Case, Drawing, alone_of, broken

_DRAWS = 150
_DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64")


def _bits(drawing: Drawing) -> Case:
    """From any dtype to any other one; what comes out is compared as whole numbers."""
    source, target = drawing.pick(_DTYPES), drawing.pick(_DTYPES)
    ratio = np.dtype(source).itemsize / np.dtype(target).itemsize
    last = int(1 / ratio) if ratio < 1 else 2
    kind = drawing.pick(KINDS)
    operand = drawing.operand(kind, (3, last), int(drawing.random.integers(3)))

    def compute(x: Any) -> Any:
        held = np.ascontiguousarray((7 * x).astype(source))
        if ratio < 1:
            if held.shape[-1] != last:
                raise ValueError("no such shape")
            found = held.view(target)[..., 0]
        else:
            found = held.view(target).reshape((*held.shape, int(ratio)) if ratio > 1 else held.shape)
        return np.nan_to_num(found.astype("float64"), posinf=1.0, neginf=-1.0)

    return Case("Bitcast", (operand,), {"T": source, "type": target}, drawing.shares, compute)


def _tried(seed: int, rules: dict[str, Rule] | None = None) -> str | None:
    drawing = Drawing(seed)
    case = _bits(drawing)
    try:
        with np.errstate(all="ignore"):
            for at in range(drawing.replicas):
                case.compute(case.operands[0].parts[at])
            case.compute(case.operands[0].whole)
    except ValueError:
        return ""
    with np.errstate(all="ignore"):
        return broken(case, drawing, rules)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=_DRAWS, deadline=None)
def test_bits_of_rows_are_those_of_rows(seed: int) -> None:
    """Of every dtype as every other one, along any axis."""
    found = _tried(seed)
    assert not found, found


def test_something_is_claimed_of_bits() -> None:
    """Of a good part of what is drawn."""
    counts = Counter(_tried(seed) for seed in range(2 * _DRAWS))
    assert counts[None] >= _DRAWS // 8, counts


def test_bits_of_parts_are_no_parts() -> None:
    """A rule that says so is found."""

    def wrong(step: GraphStep) -> Fact:
        (operand,) = step.ins
        inner = alone_of(operand) if step.replicas > 1 else operand
        return Fact(operand.kind, step.term((Fraction(1), inner.term)), axis=operand.axis, shape=step.shape())

    assert any(_tried(seed, {"Bitcast": wrong}) for seed in range(20 * _DRAWS))


def _lengths_of(drawing: Drawing, at: int, count: int) -> tuple[int, list[list[int]], int]:
    """An axis, the shapes of some values along it but for the number of examples, and where that is; -1 for nowhere."""
    examples = int(drawing.random.integers(-1, 2))
    shapes = []
    for _ in range(count):
        shape = [2, 3]
        shape[at] = int(drawing.random.integers(0, 4))
        shapes.append(shape)
    return at, shapes, examples


def _vector(drawing: Drawing, shape: list[int], examples: int) -> Fact:
    """The shape of a value as a fact, which may have examples along an axis."""
    world = World(drawing.replicas, drawing.terms)
    parts = [drawing.constant(np.int32(length)).fact for length in shape]
    if examples >= 0:
        parts[examples] = Fact(FactKind.ROWS, ROWS, Fraction(1), shape=())
    node = GraphNode("Pack", "op", shapes=((2,),), dtypes=("int32",))
    found = all_rules()["Pack"](GraphStep(node, tuple(parts), world))
    assert isinstance(found, Fact)
    return found


def _offsets(seed: int, rule: Rule) -> str | None:
    """What is wrong with where values are said to begin; an empty string if nothing is said."""
    drawing = Drawing(seed)
    at, shapes, examples = _lengths_of(drawing, int(drawing.random.integers(2)), int(drawing.random.integers(1, 4)))
    facts = [_vector(drawing, shape, examples) for shape in shapes]
    axis = drawing.constant(np.int32(at - 2 if drawing.random.integers(2) else at)).fact
    node = GraphNode("ConcatOffset", "op", shapes=((2,),) * len(shapes), dtypes=("int32",) * len(shapes))
    results = rule(GraphStep(node, (axis, *facts), World(drawing.replicas, drawing.terms)))
    assert not isinstance(results, Fact)
    said: str | None = ""
    for share in drawing.shares:
        lengths = [[share if place == examples else length for place, length in enumerate(shape)] for shape in shapes]
        begin = 0
        for own, fact in zip(lengths, results, strict=True):
            expected = [begin if place == at else 0 for place in range(2)]
            begin += own[at]
            if fact.kind is FactKind.UNKNOWN:
                continue
            said = None
            if fact.value is None or list(fact.value) != expected:
                return f"{fact.value} is not {expected}"
    return said


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=_DRAWS, deadline=None)
def test_where_values_begin_that_are_put_together(seed: int) -> None:
    """Whatever is said is so in each replica, also in one without examples."""
    assert not _offsets(seed, all_rules()["ConcatOffset"])


def test_where_values_begin_is_said_of_most() -> None:
    """All but those that stand behind examples of their own."""
    counts = Counter(_offsets(seed, all_rules()["ConcatOffset"]) for seed in range(_DRAWS))
    assert counts[None] >= _DRAWS // 2, counts


def _of_the_last(results: list[Fact]) -> list[Fact]:
    return results[::-1]


def _all_at_the_beginning(results: list[Fact]) -> list[Fact]:
    return results[:1] * len(results)


@pytest.mark.parametrize("change", [_of_the_last, _all_at_the_beginning])
def test_mistaken_beginnings_are_found(change: Callable[[list[Fact]], list[Fact]]) -> None:
    """By the same check."""

    def wrong(step: GraphStep) -> list[Fact]:
        found = all_rules()["ConcatOffset"](step)
        return change([found] if isinstance(found, Fact) else list(found))

    assert any(_offsets(seed, wrong) for seed in range(_DRAWS))


def _summed(fact: Fact, drawing: Drawing, shape: tuple[int | None, ...], axes: list[int], kind: str = "Sum") -> Fact:
    node = GraphNode(kind, "op", attributes={}, shapes=(shape,), dtypes=("float32",))
    axis = drawing.constant(np.asarray(axes, np.int32)).fact
    found = all_rules()[kind](GraphStep(node, (fact, axis), World(2, drawing.terms)))
    return found if isinstance(found, Fact) else found[0]


@pytest.mark.parametrize("kind", [FactKind.REPLICATED, FactKind.PARTIAL])
def test_a_sum_of_nothing_is_zero(kind: FactKind) -> None:
    """Which is no part of anything, and everybody's; neither is a mean of nothing, nor a sum of something."""
    drawing = Drawing(0)
    nothing = replace(drawing.operand(kind, (0,)).fact, kind=kind)
    found = _summed(nothing, drawing, (), [0])
    assert found.kind is FactKind.REPLICATED
    assert not found.scale
    assert _summed(nothing, drawing, (), [0], "Mean").scale != 0
    assert _summed(drawing.operand(kind, (1,)).fact, drawing, (), [0]).scale != 0
    beside = _summed(drawing.operand(kind, (0, 2)).fact, drawing, (0,), [1])
    assert beside.scale != 0 or beside.shape == (0,)


def test_a_sum_of_examples_is_not_of_nothing() -> None:
    """Their number is open, and a replica may have none."""
    drawing = Drawing(0)
    rows = drawing.operand(FactKind.SPLIT, (3,)).fact
    assert _summed(rows, drawing, (3,), [0]).kind is FactKind.PARTIAL
    none = drawing.operand(FactKind.SPLIT, (0,)).fact
    assert _summed(none, drawing, (), [0, 1]).scale == 0
    assert _summed(none, drawing, (None,), [1]).kind is FactKind.SPLIT
