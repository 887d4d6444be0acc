"""Rules held against numbers: an operation is carried out on the replicas' values and on the whole, and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from harness.evidence.step_graph import GraphNode
from harness.evidence.trace import Array as Kept
from harness.relations.constants import fact_of_constant
from harness.relations.facts import EVEN, NONEMPTY, Fact, FactKind
from harness.relations.protocol import GraphStep, Rule, World
from harness.relations.rules import all_rules
from harness.relations.terms import ROWS, Terms

Array = np.ndarray[Any, Any]
SCALES = (Fraction(1), Fraction(2), Fraction(1, 3), Fraction(-1, 2))
KINDS = (FactKind.SPLIT, FactKind.REPLICATED, FactKind.PARTIAL)


@dataclass(frozen=True)
class Operand:
    """A fact, what each replica has, and what the one device has."""

    fact: Fact
    parts: tuple[Array, ...]
    whole: Array


@dataclass(frozen=True)
class Case:
    """An operation with operands, and of which dtype its result is."""

    type: str
    operands: tuple[Operand, ...]
    attributes: dict[str, Any]
    shares: tuple[int, ...]
    compute: Callable[..., Array]
    dtype: str = "float32"


class Drawing:
    """Draws operands: of a batch with uneven and empty shares, of everybody, of parts of a sum."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.replicas = int(self.random.integers(2, 5))
        self.terms = Terms()
        even = bool(self.random.integers(2))
        if even:
            self.shares = (int(self.random.integers(1, 4)),) * self.replicas
        else:
            self.shares = tuple(int(each) for each in self.random.integers(0, 4, self.replicas))
            if not sum(self.shares):
                self.shares = (2, *self.shares[1:])
        self.rows = sum(self.shares)

    def pick(self, values: Sequence[Any]) -> Any:
        """One of these."""
        return values[int(self.random.integers(len(values)))]

    def operand(self, kind: FactKind, shape: Sequence[int], axis: int = 0, *, positive: bool = False) -> Operand:
        """One of a kind; of a split one `shape` has what is not the axis of the examples."""
        scale = self.pick(SCALES)
        term = self.terms.made("drawn", int(self.random.integers(1 << 60)))
        shape = list(shape)
        if kind is FactKind.SPLIT:
            shape.insert(axis, self.rows)
        whole = self.random.normal(size=shape)
        whole = np.abs(whole) + 0.5 if positive else whole
        scaled = float(scale) * whole
        if kind is FactKind.SPLIT:
            ends = np.cumsum(self.shares)[:-1]
            parts = tuple(np.split(scaled, ends, axis=axis))
            known = tuple(None if at == axis else length for at, length in enumerate(shape))
            fact = Fact(kind, term, scale, axis=axis, rows=(Fraction(1), ROWS), shape=known)
            return Operand(fact, parts, whole)
        if kind is FactKind.PARTIAL:
            shares = [self.random.normal(size=shape) for _ in range(self.replicas - 1)]
            parts = (*shares, scaled - sum(shares))
        else:
            parts = (scaled,) * self.replicas
        return Operand(Fact(kind, term, scale, shape=tuple(shape)), parts, whole)

    def whole(self, kind: FactKind, dtype: str, axis: int = 0) -> Operand:
        """Whole numbers of a kind, which wrap around as those of a dtype; of a split one three for each example."""
        shape = [3, 3]
        if kind is FactKind.SPLIT:
            shape[axis] = self.rows
        bound = min(100, np.iinfo(dtype).max + 1)
        draws = [self.random.integers(0, bound, shape) for _ in range(self.replicas if kind is FactKind.PARTIAL else 1)]
        whole = np.asarray(sum(draws)).astype(dtype)
        parts = tuple(each.astype(dtype) for each in draws)
        term = self.terms.made("drawn", int(self.random.integers(1 << 60)))
        known = tuple(None if kind is FactKind.SPLIT and at == axis else length for at, length in enumerate(shape))
        if kind is FactKind.SPLIT:
            parts = tuple(np.split(whole, np.cumsum(self.shares)[:-1], axis=axis))
            return Operand(Fact(kind, term, axis=axis, rows=(Fraction(1), ROWS), shape=known), parts, whole)
        return Operand(Fact(kind, term, shape=known), parts if len(parts) > 1 else parts * self.replicas, whole)

    def counted(self, scale: Fraction | None = None) -> Operand:
        """How many examples the replica has, or a multiple."""
        scale = Fraction(int(self.random.integers(1, 4))) if scale is None else scale
        parts = tuple(np.asarray(float(scale) * share) for share in self.shares)
        return Operand(Fact(FactKind.ROWS, ROWS, scale, shape=()), parts, np.asarray(float(self.rows)))

    def constant(self, value: Any) -> Operand:
        """What is written in the program."""
        array = np.asarray(value)
        node = GraphNode("Const", "", shapes=(array.shape,), value=Kept.of(array))
        fact = fact_of_constant(GraphStep(node, (), World(1, self.terms)))
        return Operand(fact, (array,) * self.replicas, array)


def is_possible(case: Case, drawing: Drawing) -> bool:
    """Whether there is such an operation: shapes may not fit together."""
    try:
        with np.errstate(all="ignore"):
            for at in range(drawing.replicas):
                case.compute(*(each.parts[at] for each in case.operands))
            case.compute(*(each.whole for each in case.operands))
    except ValueError:
        return False
    return True


def _told(case: Case, facts: Sequence[Fact], replicas: int, terms: Terms, rules: dict[str, Rule]) -> Fact:
    whole = case.compute(*(each.whole for each in case.operands))
    rows = sum(case.shares)
    # The length of the batch is not known when a graph is made.
    shape = tuple(None if length == rows and rows > 9 else length for length in whole.shape)
    node = GraphNode(case.type, "op", attributes=case.attributes, shapes=(shape,), dtypes=(case.dtype,))
    result = rules[case.type](GraphStep(node, tuple(facts), World(replicas, terms)))
    return result if isinstance(result, Fact) else result[0]


def claim_of(case: Case, drawing: Drawing, rules: dict[str, Rule] | None = None) -> tuple[Fact, Fact]:
    """What the rule says of the run and of the reference."""
    known = {**all_rules(), **(rules or {})}
    alone = [alone_of(each.fact) for each in case.operands]
    run = _told(case, [each.fact for each in case.operands], drawing.replicas, drawing.terms, known)
    return run, _told(case, alone, 1, drawing.terms, known)


def alone_of(fact: Fact) -> Fact:
    """The reference's fact about an operand."""
    kind = FactKind.REPLICATED if fact.kind is FactKind.PARTIAL else fact.kind
    one = fact.scale if fact.value is not None else Fraction(1)
    return replace(fact, kind=kind, scale=one)


def broken(case: Case, drawing: Drawing, rules: dict[str, Rule] | None = None, tolerance: float = 1e-7) -> str | None:
    """What is wrong with what a rule claims, in numbers; an empty string where it claims nothing to compare."""
    run, alone = claim_of(case, drawing, rules)
    if run.kind is FactKind.UNKNOWN or alone.kind is FactKind.UNKNOWN or run.term != alone.term or not alone.scale:
        return ""
    needed = {each.what for each in run.conditions}
    if (EVEN in needed and (len(set(case.shares)) > 1 or not case.shares[0])) or (
        NONEMPTY in needed and 0 in case.shares
    ):
        return ""
    with np.errstate(all="ignore"):
        parts = [case.compute(*(each.parts[at] for each in case.operands)) for at in range(drawing.replicas)]
        expected = float(run.scale / alone.scale) * case.compute(*(each.whole for each in case.operands))
    return _compared(run, parts, expected, tolerance)


def _compared(run: Fact, parts: list[Array], expected: Array, tolerance: float) -> str | None:
    if run.kind in (FactKind.SPLIT, FactKind.PARTIAL) and len({part.ndim for part in parts}) > 1:
        return "the parts have different ranks"
    if run.kind is FactKind.SPLIT:
        others = {part.shape[: run.axis] + part.shape[run.axis + 1 :] for part in parts}
        if len(others) > 1:
            return "the parts cannot be joined"
        found = np.concatenate(parts, axis=run.axis)
    elif run.kind is FactKind.PARTIAL and len({part.shape for part in parts}) > 1:
        return "the parts cannot be added"
    elif run.kind in (FactKind.PARTIAL, FactKind.ROWS):
        found = np.sum(parts, axis=0)
    elif run.kind is FactKind.REPLICATED:
        for part in parts:
            if part.shape != expected.shape or not np.allclose(part, expected, rtol=tolerance, atol=tolerance):
                return f"not everybody has {run.scale} times the value"
        return None
    else:
        return ""
    if found.shape != expected.shape or not np.allclose(found, expected, rtol=tolerance, atol=tolerance):
        return f"{run.kind.value}: {run.scale} times the value is not what there is"
    return None
