"""Cure: gradients are summed over the replicas before something that is no sum is made of them.

What comes after adds up what the replicas have, which is the same by then; so each gives its share of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.cures.protocol import NUMBERS, Source, called

__all__ = ["CURE"]

_OPENS = (ast.FunctionDef, ast.ClassDef, ast.For, ast.While, ast.With, ast.Try)
"""Statements that have others in them which are meant themselves."""


class _SummedFirst:
    codes: tuple[str, ...] = (*NUMBERS, "clipped_before_reduce", "local_overflow_decision")

    def changed(self, source: Source) -> Iterator[str]:
        for statement in source.nodes(ast.stmt):
            if not isinstance(statement, _OPENS):
                yield from _around(source, statement)


def _around(source: Source, statement: ast.stmt) -> Iterator[str]:
    known = _gradients(source)
    read = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    for name in dict.fromkeys(read):
        if name not in known:
            continue
        summed = f'{name} = {source.context}.all_reduce("SUM", {name})'
        for made in dict.fromkeys([*_targets(statement), name]):
            share = f"lambda each: each / {source.replicas}"
            yield source.around(statement, summed, f"{made} = {source.tensorflow}.nest.map_structure({share}, {made})")


def _gradients(source: Source) -> set[str]:
    """Names of what a tape has given, and of what was made of it."""
    found = set[str]()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign):
            makes = any(isinstance(each, ast.Call) and called(each) == "gradient" for each in ast.walk(node.value))
            if makes or found & {each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)}:
                found.update(_targets(node))
    return found


def _targets(statement: ast.stmt) -> list[str]:
    """Names that a statement gives a value; of several it is the first that counts."""
    if not isinstance(statement, ast.Assign):
        return []
    first = statement.targets[0]
    first = first.elts[0] if isinstance(first, ast.Tuple) and first.elts else first
    return [first.id] if isinstance(first, ast.Name) else []


CURE = _SummedFirst()
