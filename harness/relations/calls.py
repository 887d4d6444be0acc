"""Calls, decisions and loops: what they carry out is walked through; loops until nothing new is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from harness.relations.facts import Fact, FactKind
from harness.relations.loops import looped
from harness.relations.protocol import GraphStep, Walking

_ROUNDS_MAX = 6
_DEPTH_MAX = 40


def _called(walker: Walking, step: GraphStep) -> list[Fact]:
    if walker.depth > _DEPTH_MAX:
        return [step.unknown("functions that call themselves", ruleless=True)] * len(step.node.shapes)
    walker.depth += 1
    try:
        return walker.carried_out(step.node.functions["f"], step.ins)
    finally:
        walker.depth -= 1


def _decided(walker: Walking, step: GraphStep) -> list[Fact]:
    """One of two, by what is the same for everybody."""
    decision, *given = step.ins
    names = ("then_branch", "else_branch")
    if decision.value is not None and decision.value.ndim == 0:
        held = dict(walker.states)
        results = walker.carried_out(step.node.functions[names[0 if bool(decision.value) else 1]], given)
        for place, fact in walker.states.items():
            if fact is not held.get(place):
                walker.states[place] = _under(fact, decision)
        return [_under(each, decision) for each in results]
    if decision.kind is FactKind.PRESENT:
        return _given_examples(walker, step, given)
    before = dict(walker.states)
    outcomes = []
    for name in names:
        walker.states.clear()
        walker.states.update(before)
        results = walker.carried_out(step.node.functions[name], given)
        outcomes.append((results, dict(walker.states)))
    (one, one_states), (other, other_states) = outcomes
    for place in before:
        walker.states[place] = _either(walker, step, decision, one_states[place], other_states[place])
    return [_either(walker, step, decision, a, b) for a, b in zip(one, other, strict=True)]


def _under(given: Fact, decision: Fact) -> Fact:
    """Under the conditions of a decision, too."""
    if not decision.conditions or given.kind is FactKind.UNKNOWN:
        return given
    return replace(given, conditions=given.conditions | decision.conditions)


def _given_examples(walker: Walking, step: GraphStep, given: list[Fact]) -> list[Fact]:
    """By whether there are examples: what is done with them, if otherwise there are no rows and nothing changes."""
    before, pulled = dict(walker.states), dict(walker.pulled)
    otherwise = walker.carried_out(step.node.functions["else_branch"], given)
    changed = any(walker.states[place] is not before[place] for place in before)
    walker.states.update(before)
    walker.pulled.clear()
    walker.pulled.update(pulled)
    results = walker.carried_out(step.node.functions["then_branch"], given)
    changed = changed or any(walker.states[place] is not before[place] for place in before)
    fine = not changed and all(
        one.kind is FactKind.SPLIT and one.axis == 0 and (_is_empty(other) or _is_pulled(walker, other))
        for one, other in zip(results, otherwise, strict=True)
    )
    if fine:
        return results
    unknown = step.unknown("what is done where there are no examples", ruleless=True)
    if changed:
        for place in before:
            walker.states[place] = unknown
    return [replace(unknown, shape=step.shape(at)) for at in range(len(results))]


def _is_empty(given: Fact) -> bool:
    return bool(given.shape) and given.shape is not None and given.shape[0] == 0


def _is_pulled(walker: Walking, given: Fact) -> bool:
    """Where an iterator is at its end, asking it once more ends the step."""
    return given.kind is FactKind.SPLIT and walker.world.terms.form(given.term)[0] == "pulled"


def _either(walker: Walking, step: GraphStep, decision: Fact, one: Fact, other: Fact) -> Fact:
    if one is other:
        return one
    if decision.kind is not FactKind.REPLICATED:
        if decision.unknown is not None:
            return Fact(FactKind.UNKNOWN, shape=one.shape, unknown=decision.unknown)
        return replace(step.unknown("each replica decides by what it has for itself"), shape=one.shape)
    for each in (one, other):
        if each.kind is FactKind.UNKNOWN:
            return each
    kinds = {one.kind, other.kind}
    shape = one.shape if one.shape == other.shape else None
    if FactKind.HANDLE in kinds or kinds & {FactKind.SHAPE, FactKind.STACKED, FactKind.EXTREME}:
        return replace(step.unknown("a decision between these", ruleless=True), shape=shape)
    if kinds <= {FactKind.PARTIAL, FactKind.ROWS, FactKind.REPLICATED} and len(kinds) > 1:
        one, other = (
            replace(
                each,
                kind=FactKind.PARTIAL,
                scale=each.scale * (walker.world.replicas if each.kind is FactKind.REPLICATED else 1),
            )
            for each in (one, other)
        )
    if one.kind is not other.kind or (one.kind is FactKind.SPLIT and (one.axis, one.rows) != (other.axis, other.rows)):
        return replace(step.unknown("what comes out of a decision means different things"), shape=shape)
    if one.scaled == other.scaled:
        scaled = one.scaled
    else:
        scaled = Fraction(1), walker.world.terms.made("if", decision.scaled, one.scaled, other.scaled)
    local = walker.world.terms.made("local if", decision.local, one.local, other.local)
    return replace(
        one,
        scale=scaled[0],
        term=scaled[1],
        shape=shape,
        value=None,
        conditions=one.conditions | other.conditions | decision.conditions,
        local=local,
        replicas=one.replicas | other.replicas | decision.replicas,
    )


def _repeated(walker: Walking, step: GraphStep) -> list[Fact]:
    """As often as a condition holds: what the body makes of what it is given is what it was given, again and again."""
    return looped(walker, step)


def _unrolled_case(walker: Walking, step: GraphStep) -> list[Fact]:
    unknown = step.unknown("a choice among several", ruleless=True)
    for place in walker.states:
        walker.states[place] = unknown
    return [unknown] * len(step.node.shapes)


CALLS: dict[str, Callable[[Any, GraphStep], list[Fact]]] = {
    "PartitionedCall": _called,
    "StatefulPartitionedCall": _called,
    "If": _decided,
    "StatelessIf": _decided,
    "While": _repeated,
    "StatelessWhile": _repeated,
    "Case": _unrolled_case,
    "StatelessCase": _unrolled_case,
}
