"""Operations on variables: what a copy holds is a fact, which assignments change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from harness.evidence.step_graph import GraphNode
from harness.relations.facts import Fact, FactKind, Shape
from harness.relations.protocol import GraphStep, Walking

_ADDED = {"AssignAddVariableOp": "AddV2", "AssignSubVariableOp": "Sub"}
_READ = ("ReadVariableOp", "ResourceGather", "VariableShape", "VarIsInitializedOp")


def on_variable(walker: Walking, step: GraphStep) -> list[Fact]:
    """What an operation gives that has a handle among its operands; it may change what the variable holds."""
    kind = step.node.type
    handle = step.ins[0].handle
    count = len(step.node.shapes)
    if kind in ("Identity", "IdentityN"):
        return list(step.ins)
    if handle is not None and handle[0].startswith("iterator") and kind == "IteratorGetNext":
        return _examples(walker, step, handle, step.node.shapes)
    if handle is not None and handle[0].startswith("iterator") and kind == "IteratorGetNextAsOptional":
        shapes = [_shape(each) for each in step.node.attributes.get("output_shapes") or ()]
        return [Fact(FactKind.OPTIONAL, shape=(), parts=tuple(_examples(walker, step, handle, shapes)))]
    if kind == "VarIsInitializedOp":
        return [step.replicated(step.once(of="initialized"), of=())]
    if handle is None or step.ins[0].kind is not FactKind.HANDLE or handle not in walker.states:
        return _lost(walker, step)
    held = walker.states[handle]
    if kind == "ReadVariableOp":
        shape = step.shape() if step.shape() is not None else held.shape
        return [replace(held, shape=shape)]
    if kind == "AssignVariableOp":
        walker.states[handle] = replace(step.ins[1], value=None)
        return []
    if kind in _ADDED:
        walker.states[handle] = _added(walker, step, held)
        return []
    if kind == "ResourceGather":
        given = replace(held, shape=_table_shape(step, held))
        return walker.told(step.node, (given, *step.ins[1:]))
    if kind.startswith(("ResourceApply", "ResourceSparseApply", "ResourceScatter")) and not count:
        _applied(walker, step)
        return []
    return _lost(walker, step)


def _shape(lengths: list[int] | None) -> Shape:
    return None if lengths is None else tuple(None if each < 0 else each for each in lengths)


def _examples(walker: Walking, step: GraphStep, handle: tuple[str, int | None], shapes: Sequence[Shape]) -> list[Fact]:
    """What an iterator gives: each replica its rows, or the whole batch; which batch, everybody counts alike."""
    count = walker.pulled.get(handle, 0)
    walker.pulled[handle] = count + 1
    # Of the batch that is asked for next there may be other numbers of rows.
    length = Fraction(1), walker.world.terms.made("rows of", handle[0], count)
    found = []
    for output, shape in enumerate(shapes):
        term = walker.world.terms.made("pulled", handle[0], count, output)
        whose = frozenset() if handle[1] is None else frozenset({handle[1]})
        if shape and handle[1] is None and walker.world.replicas > 1:  # an iterator that was never distributed
            fact = Fact(FactKind.REPLICATED, term, shape=shape, local=term)
        elif shape:
            fact = Fact(FactKind.SPLIT, term, rows=length, shape=shape, local=term, replicas=whose)
        else:
            fact = replace(step.unknown("an iterator gives something without rows", ruleless=True), replicas=whose)
        found.append(fact)
    return found


def _added(walker: Walking, step: GraphStep, held: Fact) -> Fact:
    """As a sum or a difference of what it held, and what it is given."""
    given = step.ins[1]
    node = GraphNode(
        _ADDED[step.node.type],
        step.node.name,
        shapes=(given.shape if given.shape is not None else held.shape,),
        dtypes=("",),
        caller=step.node.caller,
    )
    (found,) = walker.told(node, (replace(held, shape=given.shape), given))
    return found


def _table_shape(step: GraphStep, held: Fact) -> tuple[int | None, ...] | None:
    result, index = step.shape(), step.ins[1].shape
    if held.shape is not None or result is None or index is None:
        return held.shape
    return (None, *result[len(index) :])


def _applied(walker: Walking, step: GraphStep) -> None:
    """An optimizer's own operation: of what everybody has, everybody makes the same."""
    handles = [each.handle for each in step.ins if each.kind is FactKind.HANDLE and each.handle in walker.states]
    given = tuple(
        walker.states[each.handle] if each.kind is FactKind.HANDLE and each.handle in walker.states else each
        for each in step.ins
    )
    if walker.world.replicas == 1:
        given = tuple(
            replace(each, kind=FactKind.REPLICATED, parts=())
            if each.kind in (FactKind.SPLIT, FactKind.ROWS, FactKind.SHAPE)
            else each
            for each in given
        )
    whole = replace(step, ins=given)
    replicas = frozenset[int]().union(*(each.replicas for each in given))
    lost = next((each for each in given if each.kind is FactKind.UNKNOWN), None)
    for at, handle in enumerate(handles):
        assert handle is not None
        if lost is not None:
            walker.states[handle] = lost
        elif whole.all_replicated():
            found = whole.replicated(whole.once(*given, output=at))
            local = walker.world.terms.made("local", step.node.type, tuple(each.local for each in given), at)
            walker.states[handle] = replace(found, local=local, replicas=replicas, shape=given[0].shape)
        else:
            walker.states[handle] = whole.unknown("a variable is updated by what each replica has for itself")


def _lost(walker: Walking, step: GraphStep) -> list[Fact]:
    """Nothing is known of the variable any more."""
    unknown = step.unknown("what it does to a variable is not known", ruleless=True)
    walker.note_open(step.node.type)
    for each in step.ins:
        if each.kind is FactKind.HANDLE and each.handle in walker.states:
            walker.states[each.handle] = unknown
    return [unknown] * len(step.node.shapes)
