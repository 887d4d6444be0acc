"""Cure: what is summed over the replicas, or multiplied by their number, once too often, is not."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.cures.protocol import NUMBERS, CureSource, called, names_replicas

_GIVEN = 2
"""Arguments of `all_reduce`."""


class _OneSum:
    codes: tuple[str, ...] = (
        *NUMBERS,
        "accumulation_off",
        "begins_alike",
        "loss_times_replicas",
        "loss_times_workers",
    )

    def changed(self, source: CureSource) -> Iterator[str]:
        for node in source.nodes(ast.BinOp):
            if isinstance(node.op, ast.Mult):
                for factor, other in ((node.right, node.left), (node.left, node.right)):
                    if names_replicas(factor) and not names_replicas(other):
                        yield source.replaced(node, source.of(other))
        for call in source.calls("all_reduce"):
            if len(call.args) == _GIVEN and "SUM" in source.of(call.args[0]).upper():
                yield source.replaced(call, source.of(call.args[1]))
        for statement in source.nodes(ast.Expr):
            if isinstance(statement.value, ast.Call) and called(statement.value) == "apply_gradients":
                names = {each.id for each in ast.walk(statement) if isinstance(each, ast.Name)}
                yield from (source.around(statement, source.shared(name)) for name in sorted(source.gradients & names))


CURE = _OneSum()
