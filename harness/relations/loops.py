"""Loops: each value that goes round keeps its kind, or gets one that it keeps; else nothing is known of it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from harness.relations.facts import Fact, FactKind, ProofCondition
from harness.relations.protocol import GraphStep, Walking

Place = tuple[str, int | None]
_ROUNDS_MAX = 6
_GOING_ROUND = (FactKind.REPLICATED, FactKind.PARTIAL, FactKind.SPLIT, FactKind.ROWS)


def looped(walker: Walking, step: GraphStep) -> list[Fact]:
    """What a loop leaves.

    By induction: if every value that goes round is of its kind before the body, and the body leaves it so, it is when
    the loop ends; whether it ends, everybody has to decide alike. A variable that the body changes goes round, too.
    """
    before = dict(walker.states)
    starts = list(step.ins)
    places = list(before)
    kept: set[int] = {at for at, each in enumerate(starts) if each.kind is FactKind.HANDLE}
    moving: set[Place] = set()
    kinds = [each.kind for each in starts]
    held = {place: each.kind for place, each in before.items()}
    for _ in range(_ROUNDS_MAX):
        arguments = [each if at in kept else _any(walker, step, at, each, kinds[at]) for at, each in enumerate(starts)]
        walker.states.clear()
        walker.states.update(before)
        for place in moving:
            walker.states[place] = _any(walker, step, ("held", place), before[place], held[place])
        at_begin = dict(walker.states)
        pulled = dict(walker.pulled)
        walker.depth += 1  # a loop within this one has other values that go round
        try:
            decisions = walker.carried_out(step.node.functions["cond"], arguments)
            results = walker.carried_out(step.node.functions["body"], arguments)
        finally:
            walker.depth -= 1
        assigned = [place for place in places if walker.states[place] is not at_begin[place]]
        before_this = len(moving)
        moving.update(assigned)
        if walker.pulled != pulled:
            _lose_count(walker, pulled)
            break  # which batch an iterator gives is not the same in each round
        changed = _newly_kept(starts, arguments, results, kept, first=_ == 0) or len(moving) > before_this
        for place in assigned:
            changed |= _widen(held, place, walker.states[place], before[place])
        for at, each in enumerate(results):
            if at not in kept:
                changed |= _widen(kinds, at, each, starts[at])
        if not changed:
            return _left(walker, step, starts, arguments, results, decisions[0], kept, before, at_begin, moving)
    unknown = step.unknown("a loop of which nothing stays as it is", ruleless=True)
    for place in moving:
        walker.states[place] = unknown
    return [unknown] * len(starts)


def _lose_count(walker: Walking, before: dict[Place, int]) -> None:
    """How often an iterator was asked is not known any more: what it gives after this is equal to nothing else."""
    terms = walker.world.terms
    for handle, count in walker.pulled.items():
        if count != before.get(handle):
            walker.pulled[handle] = terms.made("a round's", len(terms))


def _newly_kept(starts: list[Fact], arguments: list[Fact], results: list[Fact], kept: set[int], *, first: bool) -> bool:
    """What the body only hands on stays what it was."""
    if not first:
        return False
    found = {at for at, each in enumerate(results) if each is arguments[at]} - kept
    kept |= found
    return bool(found)


def _widen(kinds: Any, at: object, result: Fact, start: Fact) -> bool:
    """Let a value be of the kind that the body leaves, if it can be from the start on."""
    kind = kinds[at]
    if result.kind is kind:
        return False
    if kind is FactKind.UNKNOWN:
        return False
    counted = (FactKind.REPLICATED, FactKind.ROWS, FactKind.PARTIAL)
    if kind in counted and result.kind in counted:
        if kind is not FactKind.PARTIAL:
            kinds[at] = FactKind.PARTIAL
            return True
        return False
    kinds[at] = FactKind.UNKNOWN
    return True


def _any(walker: Walking, step: GraphStep, at: object, start: Fact, kind: FactKind) -> Fact:
    """A value at the beginning of any round."""
    if kind is FactKind.UNKNOWN or kind not in _GOING_ROUND:
        if start.kind is FactKind.UNKNOWN:
            return start
        unknown = step.unknown("a value that goes round in a loop and does not stay what it is", ruleless=True)
        return replace(unknown, shape=start.shape)
    term = walker.world.terms.made("round", walker.depth, str(at))
    shape = _loop_shape(step, at, start)
    return replace(
        start,
        kind=kind,
        term=term,
        scale=Fraction(1),
        value=None,
        parts=(),
        local=term,
        shape=shape,
        rows=start.rows,
        made=None,
    )


def _loop_shape(step: GraphStep, at: object, start: Fact) -> tuple[int | None, ...] | None:
    return step.shape(at) if isinstance(at, int) else start.shape


def _left(
    walker: Walking,
    step: GraphStep,
    starts: list[Fact],
    arguments: list[Fact],
    results: list[Fact],
    decision: Fact,
    kept: set[int],
    before: dict[Place, Fact],
    at_begin: dict[Place, Fact],
    moving: set[Place],
) -> list[Fact]:
    """What is known when the loop ends."""
    going = [at for at in range(len(starts)) if at not in kept]
    ordered = sorted(moving, key=str)
    begins = [_as(starts[at], arguments[at].kind, walker.world.replicas) for at in going]
    begins += [_as(before[place], at_begin[place].kind, walker.world.replicas) for place in ordered]
    ends = [_as(results[at], arguments[at].kind, walker.world.replicas) for at in going]
    ends += [_as(walker.states[place], at_begin[place].kind, walker.world.replicas) for place in ordered]
    lost = decision.unknown if decision.kind is FactKind.UNKNOWN else None
    alike = decision.kind is FactKind.REPLICATED
    conditions = frozenset[ProofCondition]().union(*(each.conditions for each in (*begins, *ends, decision)))
    replicas = frozenset[int]().union(*(each.replicas for each in (*begins, *ends)))
    form = (decision.scaled, tuple(each.scaled for each in begins), tuple(each.scaled for each in ends))
    forms = (decision.local, tuple(each.local for each in begins), tuple(each.local for each in ends))
    known = all(
        one.kind is two.kind and (one.kind is not FactKind.SPLIT or (one.axis, one.rows) == (two.axis, two.rows))
        for one, two in zip(begins, ends, strict=True)
    )

    def after(number: int) -> Fact:
        one, two = begins[number], ends[number]
        for each in (one, two):
            if each.kind is FactKind.UNKNOWN:
                return each
        if not known or not alike:
            if lost is not None:
                return Fact(FactKind.UNKNOWN, unknown=lost, shape=one.shape)
            return step.unknown("how often a loop goes round, or what goes round in it, is each replica's own affair")
        return replace(
            one,
            term=walker.world.terms.made("loop", number, form),
            scale=Fraction(1),
            value=None,
            conditions=conditions,
            local=walker.world.terms.made("local loop", number, forms),
            replicas=replicas,
            shape=two.shape if one.shape == two.shape else None,
        )

    for number, place in enumerate(ordered, start=len(going)):
        walker.states[place] = replace(after(number), shape=before[place].shape)
    return [starts[at] if at in kept else after(going.index(at)) for at in range(len(starts))]


def _as(given: Fact, kind: FactKind, replicas: int) -> Fact:
    """A fact as one of another kind, where that follows from it."""
    if given.kind is kind or kind is not FactKind.PARTIAL or given.kind not in (FactKind.REPLICATED, FactKind.ROWS):
        return given
    return replace(given, kind=kind, scale=given.scale * (replicas if given.kind is FactKind.REPLICATED else 1))
