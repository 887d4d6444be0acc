"""What a rule is: of an operation, given the facts about its operands, it tells the facts about its results.

Rules stand in `rules/`, one file for each family, and are found by the type of the operation. A rule may say less than
is true and never more: where it is in doubt it says `step.unknown(why)`. A rule is asked about the replicas' function
and, with one replica, about the reference.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import msgspec

from harness.evidence.step_graph import GraphNode
from harness.relations.facts import EVEN, NONEMPTY, WITHIN, Fact, FactKind, ProofCondition, Shape, Unknown
from harness.relations.terms import Scaled, Terms

Rule = Callable[["GraphStep"], "Fact | Sequence[Fact]"]
RULES: dict[str, Rule] = {}

# Attributes that do not change what is computed.
_IRRELEVANT = {
    "shared_name",
    "container",
    "parallel_iterations",
    "shape",
    "output_shapes",
    "is_stateless",
    "config_proto",
}


@dataclass
class World:
    """What rules share: how many replicas there are, and the terms."""

    replicas: int
    terms: Terms


def rule(*types: str) -> Callable[[Rule], Rule]:
    """Make a function the rule for these types of operations."""

    def register(function: Rule) -> Rule:
        for each in types:
            if each in RULES:
                raise ValueError(f"{each} has two rules")
            RULES[each] = function
        return function

    return register


def attributes_of(node: GraphNode) -> str:
    """The attributes of an operation as part of a term."""
    kept = {name: value for name, value in node.attributes.items() if name not in _IRRELEVANT}
    if not kept:
        return "{}"
    try:
        found = msgspec.json.encode(kept, order="sorted").decode()
    except TypeError:
        found = "null"
    # In it a number that is not finite would look like another one.
    return found if "null" not in found else json.dumps(kept, sort_keys=True, default=str)


@dataclass
class GraphStep:
    """An operation that is looked at: its node, the facts about its operands, and the world."""

    node: GraphNode
    ins: tuple[Fact, ...]
    world: World

    @property
    def terms(self) -> Terms:
        """All terms."""
        return self.world.terms

    @property
    def replicas(self) -> int:
        """How many there are."""
        return self.world.replicas

    @property
    def kinds(self) -> list[FactKind]:
        """Of the operands."""
        return [each.kind for each in self.ins]

    def shape(self, output: int = 0) -> Shape:
        """Of a result."""
        return self.node.shapes[output] if output < len(self.node.shapes) else None

    def is_integer(self) -> bool:
        """Whether the result has whole numbers: a quotient is rounded."""
        known = self.node.dtypes[0] if self.node.dtypes else str(self.node.attributes.get("T", ""))
        return "int" in known

    def all_replicated(self, among: Iterable[Fact] | None = None) -> bool:
        """Whether every replica has the same operands."""
        return all(each.kind is FactKind.REPLICATED for each in (self.ins if among is None else among))

    def fact(
        self,
        kind: FactKind,
        scaled: Scaled,
        *,
        axis: int = 0,
        rows: Scaled | None = None,
        output: int = 0,
        also: Iterable[ProofCondition] = (),
        of: Iterable[Fact] | None = None,
        lengths: Iterable[Fact] = (),
    ) -> Fact:
        """A fact about a result, under the conditions of the operands.

        With a single replica the sum over all is the value itself. A replica without examples has no part of a value
        that is split, so none of what holds only of the others is needed of that, unless it has come in from another
        replica; but what is needed of `lengths`, operands that say how long the result is, is needed of the result.
        """
        if kind is FactKind.PARTIAL and self.replicas == 1:
            kind = FactKind.REPLICATED
        conditions = frozenset(also).union(*(each.conditions for each in (self.ins if of is None else of)))
        conditions |= {replace(condition, length=True) for each in lengths for condition in each.conditions}
        if self.replicas == 1:
            conditions = frozenset()
        elif kind is FactKind.SPLIT:
            conditions = frozenset(
                each for each in conditions if each.what != NONEMPTY or each.length or each.everywhere
            )
        shape = self.shape(output)
        if kind is FactKind.SPLIT and (shape is None or not 0 <= axis < len(shape)):
            return self.unknown("it is not known which axis has the examples", ruleless=True)
        if not scaled[0] and shape != ():
            if shape is None or shape.count(None) > int(kind is FactKind.SPLIT):
                return self.unknown("zeros whose shape is not known", ruleless=True)
            scaled = (
                Fraction(0),
                self.terms.made("zeros", self.seen_shape(shape, axis if kind is FactKind.SPLIT else None)),
            )
        return Fact(kind, scaled[1], scaled[0], axis=axis, rows=rows, shape=shape, conditions=conditions)

    def replicated(self, scaled: Scaled, **options: Any) -> Fact:
        """Everybody has this."""
        return self.fact(FactKind.REPLICATED, scaled, **options)

    def partial(self, scaled: Scaled, **options: Any) -> Fact:
        """The replicas' values add up to this."""
        return self.fact(FactKind.PARTIAL, scaled, **options)

    def split(self, scaled: Scaled, axis: int, **options: Any) -> Fact:
        """Each replica has its rows of this."""
        return self.fact(FactKind.SPLIT, scaled, axis=axis, **options)

    def like(self, given: Fact, scaled: Scaled, *, axis: int | None = None, **options: Any) -> Fact:
        """Of the same kind as an operand."""
        options.setdefault("rows", given.rows)
        return self.fact(given.kind, scaled, axis=given.axis if axis is None else axis, **options)

    def even(self) -> ProofCondition:
        """That all replicas have equally many examples."""
        return ProofCondition(EVEN, self.node.caller, self.node.type)

    def alike_long(self, among: Iterable[Fact] | None = None) -> list[ProofCondition]:
        """What rows of several operands need that are put against each other: to be equally many.

        Of two batches one may end in a single row, which then stands against each row of the other one, on one device
        and not in the replicas; while shards are even, that cannot be.
        """
        lengths = [each.rows for each in (self.ins if among is None else among) if each.kind is FactKind.SPLIT]
        same = len(lengths) < 2 or (lengths[0] is not None and len(set(lengths)) == 1)
        return [] if same else [self.even()]

    def nonempty(self) -> ProofCondition:
        """That every replica has an example."""
        return ProofCondition(NONEMPTY, self.node.caller, self.node.type)

    def within(self) -> ProofCondition:
        """That no whole number wraps around."""
        return ProofCondition(WITHIN, self.node.caller, self.node.type)

    def unknown(self, why: str, *, ruleless: bool = False) -> Fact:
        """Nothing is known."""
        return Fact(FactKind.UNKNOWN, shape=self.shape(), unknown=Unknown(self.node, why, self.ins, ruleless))

    def term(self, *operands: Fact | Scaled, of: str | None = None, output: int = 0, also: Any = ()) -> int:
        """What the operation gives of these operands, as a term, with its attributes."""
        given = tuple(each.scaled if isinstance(each, Fact) else each for each in operands)
        return self.terms.made(of or self.node.type, attributes_of(self.node), given, output, also)

    def once(self, *operands: Fact | Scaled, **options: Any) -> Scaled:
        """As `term`, once."""
        return Fraction(1), self.term(*operands, **options)

    @staticmethod
    def seen_shape(shape: Shape, axis: int | None) -> Shape:
        """A shape as part of a term: without the length of the axis that has the examples."""
        if shape is None or axis is None:
            return shape
        return (*shape[:axis], None, *shape[axis + 1 :])

    def shape_of(self, given: Fact) -> Shape:
        """An operand's shape as part of a term."""
        return self.seen_shape(given.shape, given.axis if given.kind is FactKind.SPLIT else None)

    def constant(self, position: int) -> Any:
        """The value of an operand that is a constant, as an array, or None."""
        return self.ins[position].value if position < len(self.ins) else None


class Walking(Protocol):
    """The walk through the graphs of one process, as operations see it that carry out others, or change variables.

    Attributes:
        world: how many replicas, and the terms.
        states: what each copy of a variable holds now, by its name and whose it is.
        pulled: how often each iterator has been asked.
        depth: of functions and loops within each other.
    """

    world: World
    states: dict[tuple[str, int | None], Fact]
    pulled: dict[tuple[str, int | None], int]
    depth: int

    def carried_out(self, number_of_graph: int, arguments: Sequence[Fact]) -> list[Fact]:
        """The results of a graph."""
        ...

    def told(self, node: GraphNode, given: tuple[Fact, ...]) -> list[Fact]:
        """The facts about the results of an operation."""
        ...

    def note_open(self, kind: str) -> None:
        """Note an operation that no rule knows."""
        ...
