"""Walks through a traced graph, one operation after another, and tells a fact about every value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from harness.evidence.step_graph import Graph, GraphNode, StepGraph
from harness.relations.calls import CALLS
from harness.relations.constants import fact_of_constant, folded
from harness.relations.facts import COARSE, EVEN, Fact, FactKind, Made, ProofCondition, Unknown, made_by
from harness.relations.lengths import closer
from harness.relations.protocol import GraphStep, Rule, World, attributes_of
from harness.relations.rules import all_rules
from harness.relations.rules.drawing import DRAWING
from harness.relations.rules.iterators import only_present
from harness.relations.rules.replicas import everywhere, met
from harness.relations.terms import ONE, ROWS, Terms
from harness.relations.variables import on_variable

Place = tuple[str, int | None]
"""A copy of a variable: its name, and whose it is."""

_QUIET = {"NoOp", "Assert", "PrintV2", "Placeholder", "DeleteIterator", "AssertEqual"}

# Python functions of the process, by a name that another process gives to another one; stateless or not.
_OUTSIDE = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}

_16_BITS = (("float16",), ("bfloat16",))

_REPLICA = re.compile(r"(^|/)replica_\d+/")


def plain_name(name: str) -> str:
    """The name that an operation has in the reference, too."""
    return _REPLICA.sub(r"\1", name) if "replica_" in name else name


def _together(given: Sequence[Fact]) -> frozenset[int]:
    """Whose values these are; mostly they are all of the same replica."""
    found = frozenset[int]()
    for each in given:
        if each.replicas and each.replicas is not found and each.replicas != found:
            found = found | each.replicas if found else each.replicas
    return found


@dataclass
class WalkedGraph:
    """What a walk has seen.

    Attributes:
        outputs: of the function.
        states: what each copy of a variable holds in the end.
        terms: shared with the reference.
        reduced: of each collective whose it is, and what goes into it.
        effects: operations without a result of which it is not known what they do.
        open: operations without a rule, whether or not they matter.
        operations: how many of each type were looked at.
        values: all that any result is.
        drawn: whether there are random numbers that are not those of one device.
        first_wrong: kept by who looks for it.
        by_name: the results of the operations, by their names without those of replicas.
    """

    outputs: list[Fact] = field(default_factory=list)
    states: dict[Place, Fact] = field(default_factory=dict)
    terms: Terms = field(default_factory=Terms)
    reduced: list[tuple[int | None, Any]] = field(default_factory=list)
    effects: set[str] = field(default_factory=set)
    open: dict[str, int] = field(default_factory=dict)
    operations: dict[str, int] = field(default_factory=dict)
    values: set[tuple[Fraction, int]] = field(default_factory=set)
    by_name: dict[str, list[Fact]] = field(default_factory=dict)
    drawn: bool = False
    first_wrong: list[Fact | None] = field(default_factory=list)


class Walker:
    """Walks through the graphs of one process.

    Args:
        traced: whose graphs.
        world: how many replicas, and the terms that runs and references share.
    """

    def __init__(self, traced: StepGraph, world: World) -> None:
        self.traced = traced
        self.world = world
        self.seen = WalkedGraph(terms=world.terms)
        self.states = self.seen.states
        self.depth = 0
        self.pulled: dict[tuple[str, int | None], int] = {}
        self._rules = all_rules()

    def carried_out(self, number_of_graph: int, arguments: Sequence[Fact]) -> list[Fact]:
        """The results of a graph."""
        graph = self.traced.graphs[number_of_graph]
        found: dict[int, list[Fact]] = dict(zip(graph.inputs, ([each] for each in arguments), strict=True))
        for at in range(len(graph.nodes)):
            self._node(graph, at, found)
        return [found[node][output] for node, output in graph.outputs]

    def _node(self, graph: Graph, at: int, found: dict[int, list[Fact]]) -> None:
        if at in found:
            return
        node = graph.nodes[at]
        for source, _ in node.inputs:
            if source not in found:  # made later: a graph that was changed after it had been made
                self._node(graph, source, found)
        given = tuple(found[source][output] for source, output in node.inputs)
        self.seen.operations[node.type] = self.seen.operations.get(node.type, 0) + 1
        found[at] = self.told(node, given)

    def told(self, node: GraphNode, given: tuple[Fact, ...]) -> list[Fact]:
        """The facts about the results of an operation."""
        step = GraphStep(closer(node, given), given, self.world)
        replicas = _together(given)
        if (called := CALLS.get(node.type)) is not None:
            return called(self, step)
        if node.type == "Const":
            return [fact_of_constant(step)]
        if any(each.kind is FactKind.HANDLE for each in given):
            results = on_variable(self, step)
        else:
            results = self._results(step, replicas)
        if node.type.startswith("Collective"):
            self._note_collective(node, given)
        if node.type in DRAWING and any(each.kind is FactKind.UNKNOWN for each in results):
            self.seen.drawn = True
        made = Made(node, given)
        unit = (node.type, attributes_of(node), tuple(each.local for each in given))
        finished = []
        for output, each in enumerate(results):
            local = self.world.terms.made("local", *unit, output) if each.local < 0 else each.local
            whose = frozenset[int]() if each.shared else each.replicas or replicas
            result = made_by(self._within_16_bits(node, output, each), made, local, whose)
            self.seen.by_name.setdefault(plain_name(node.name), []).append(result)
            finished.append(result)
            if result.kind is not FactKind.UNKNOWN:
                self.seen.values.add(result.scaled)
        return finished

    def _within_16_bits(self, node: GraphNode, output: int, found: Fact) -> Fact:
        """The fact, with the range of its dtype where that is small and the value another one than on one device."""
        other = found.kind in (FactKind.PARTIAL, FactKind.ROWS) or (abs(found.scale) != 1 and found.term != ONE)
        if self.world.replicas == 1 or not other or node.dtypes[output : output + 1] not in _16_BITS:
            return found
        return replace(found, conditions=found.conditions | {ProofCondition(COARSE, node.caller, node.type)})

    def _results(self, step: GraphStep, replicas: frozenset[int]) -> list[Fact]:
        count = len(step.node.shapes)
        if not count:
            self._without_result(step)
            return []
        if (known := folded(step)) is not None:
            return known
        lost = next((each.unknown for each in step.ins if each.kind is FactKind.UNKNOWN), None)
        if lost is not None and step.node.type not in ("Shape", "ShapeN"):
            return [Fact(FactKind.UNKNOWN, shape=step.shape(at), unknown=lost) for at in range(count)]
        if only_present(step):
            return [Fact(FactKind.PRESENT, shape=step.shape(at)) for at in range(count)]
        if len(replicas) > 1:
            step = replace(step, ins=tuple(map(everywhere, step.ins)))
            if (joined := met(step)) is not None:
                return [replace(joined, shared=True)] * count
        results = self._by_rule(step)
        if self.world.replicas == 1 and any(each.kind is FactKind.UNKNOWN for each in results):
            return self._as_one(step, results)
        for each in results:
            if each.unknown is not None and each.unknown.ruleless:
                self.note_open(step.node.type)
        return results

    def note_open(self, kind: str) -> None:
        """Note an operation that no rule knows."""
        self.seen.open[kind] = self.seen.open.get(kind, 0) + 1

    def _as_one(self, step: GraphStep, results: list[Fact]) -> list[Fact]:
        """On one device everybody has everything."""
        plain = tuple(
            each if each.kind is FactKind.REPLICATED else replace(each, kind=FactKind.REPLICATED, parts=())
            for each in step.ins
        )
        again = self._by_rule(replace(step, ins=plain))
        return [
            one
            if one.kind is not FactKind.UNKNOWN
            else other
            if other.kind is not FactKind.UNKNOWN
            else self._opaque(step, at)
            for at, (one, other) in enumerate(zip(results, again, strict=True))
        ]

    def _opaque(self, step: GraphStep, output: int) -> Fact:
        """A value of the reference that nothing else is equal to."""
        term = self.world.terms.made("opaque", len(self.world.terms), output)
        return Fact(FactKind.REPLICATED, term, shape=step.shape(output))

    def _by_rule(self, step: GraphStep) -> list[Fact]:
        known: Rule | None = self._rules.get(step.node.type)
        count = len(step.node.shapes)
        if step.node.type in _OUTSIDE or "token" in step.node.attributes:
            return [step.unknown("a function outside of the graph, of which nothing is known", ruleless=True)] * count
        if known is not None:
            result = known(step)
            results = [result] if isinstance(result, Fact) else list(result)
            return results[:count] if len(results) >= count else results * count
        if step.node.stateful or step.node.functions:
            return [step.unknown("what it does is not known", ruleless=True)] * count
        if step.all_replicated():
            return [step.replicated(step.once(*step.ins, output=at), output=at) for at in range(count)]
        return [step.unknown("there is no rule for it", ruleless=True)] * count

    def _without_result(self, step: GraphStep) -> None:
        if step.node.stateful and step.node.type not in _QUIET:
            self.note_open(step.node.type)
            self.seen.effects.add(step.node.type)

    def _note_collective(self, node: GraphNode, given: tuple[Fact, ...]) -> None:
        """In each replica they come in the same order, by which TensorFlow pairs them."""
        keys = tuple(each.value.item() if each.value is not None else None for each in given[1:2])
        replica = next(iter(given[0].replicas)) if len(given[0].replicas) == 1 else None
        self.seen.reduced.append((replica, (node.type, keys, attributes_of(node), given[0].local)))


def walk(traced: StepGraph, world: World, counting: frozenset[str]) -> WalkedGraph:
    """Walk through the outermost graph.

    Args:
        traced: one with graphs.
        world: how many replicas, and the terms.
        counting: variables of which it is assumed that they count examples.
    """
    walker = Walker(traced, world)
    found = []
    rows = _lengths(traced, world.terms)
    for place, argument in enumerate(traced.arguments):
        node = traced.graphs[0].nodes[traced.graphs[0].inputs[place]]
        found.append(_argument(walker, argument, node, counting, rows))
    walker.seen.outputs = walker.carried_out(0, found)
    return walker.seen


def _lengths(traced: StepGraph, terms: Terms) -> dict[int, int]:
    """Of each element from which examples are how many rows it has, in the order in which they are given."""
    sources = dict.fromkeys(each.source for each in traced.arguments if each.kind == "example")
    return {source: terms.made("rows of", at) if at else ROWS for at, source in enumerate(sources)}


def _argument(
    walker: Walker, argument: Any, node: GraphNode, counting: frozenset[str], rows: Mapping[int, int]
) -> Fact:
    terms, replicas = walker.world.terms, walker.world.replicas
    shape = node.shapes[0]
    whose = frozenset() if argument.replica is None else frozenset({argument.replica})
    if argument.kind == "variable":
        place = (argument.name, argument.replica)
        if place not in walker.states:
            walker.states[place] = _at_first(argument, terms, replicas, counting)
        return Fact(FactKind.HANDLE, handle=place, replicas=frozenset(), local=terms.made("handle", argument.name))
    local = terms.made("argument", argument.name)
    if argument.kind == "example" and shape:
        if argument.replica is None and replicas > 1:  # never distributed: every replica has the whole batch
            return Fact(FactKind.REPLICATED, local, shape=shape, local=local)
        length = Fraction(1), rows[argument.source]
        return Fact(FactKind.SPLIT, local, rows=length, shape=shape, local=local, replicas=whose)
    if argument.kind == "plain":
        term = terms.made("argument", argument.name, argument.digest)
        return Fact(FactKind.REPLICATED, term, shape=shape, local=term, replicas=whose)
    if argument.kind == "iterator":
        return Fact(
            FactKind.HANDLE, handle=(f"iterator {argument.name}", argument.replica), local=local, replicas=whose
        )
    if argument.kind == "token":
        return Fact(FactKind.REPLICATED, terms.made("token"), shape=shape, local=terms.made("token"))
    why = Unknown(node, argument.name if argument.kind == "other" else "an argument that is no example's", (), True)
    return Fact(FactKind.UNKNOWN, shape=shape, unknown=why, local=local, replicas=whose)


def _at_first(argument: Any, terms: Terms, replicas: int, counting: frozenset[str]) -> Fact:
    """What a copy of a variable holds before the step, by what the strategy keeps it to."""
    term = terms.made("variable", argument.name)
    whose = frozenset() if argument.replica is None else frozenset({argument.replica})
    if argument.name in counting:
        # As many in each replica as in any other, if it was so in every step before.
        conditions = frozenset({ProofCondition(EVEN)}) if replicas > 1 else frozenset()
        return Fact(FactKind.ROWS, term, local=term, replicas=whose, shape=(), conditions=conditions)
    if argument.synchronization != "on_read" or replicas == 1:
        return Fact(FactKind.REPLICATED, term, local=term, replicas=whose)
    if argument.aggregation == "SUM":
        return Fact(FactKind.PARTIAL, term, local=term, replicas=whose)
    if argument.aggregation == "MEAN":
        return Fact(FactKind.PARTIAL, term, Fraction(replicas), local=term, replicas=whose)
    node = GraphNode("VarHandleOp", argument.name)
    why = Unknown(node, "a variable of which each replica has its own, and which is not added up", (), True)
    return Fact(FactKind.UNKNOWN, local=term, replicas=whose, unknown=why)
