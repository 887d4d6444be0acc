"""Cure: gradients are summed over the replicas before something that is no sum is made of them.

What comes after adds up what the replicas have, which is the same by then; so each gives its share of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.cures.protocol import NUMBERS, CureSource, targets

_OPENS = (ast.FunctionDef, ast.ClassDef, ast.For, ast.While, ast.With, ast.Try)
"""Statements that have others in them which are meant themselves."""


class _SummedFirst:
    codes: tuple[str, ...] = (*NUMBERS, "clipped_before_reduce", "local_overflow_decision")

    def changed(self, source: CureSource) -> Iterator[str]:
        for statement in source.nodes(ast.stmt):
            if not isinstance(statement, _OPENS):
                yield from _around(source, statement)


def _around(source: CureSource, statement: ast.stmt) -> Iterator[str]:
    known = source.gradients
    read = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    for name in dict.fromkeys(read):
        if name not in known:
            continue
        summed = f'{name} = {source.context}.all_reduce("SUM", {name})'
        for made in dict.fromkeys([*targets(statement), name]):
            yield source.around(statement, summed, source.shared(made))


CURE = _SummedFirst()
