"""Cure: a term that every replica adds whole is divided by their number."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.cures.protocol import NUMBERS, CureSource


class _ScaledRegularization:
    codes: tuple[str, ...] = (*NUMBERS, "regularizer_times_replicas", "loss_times_replicas")

    def changed(self, source: CureSource) -> Iterator[str]:
        for term in source.nodes(ast.AugAssign):
            if isinstance(term.op, ast.Add):
                yield _scaled(source, term.value)
        for node in source.nodes(ast.BinOp):
            if isinstance(node.op, ast.Add):
                yield _scaled(source, node.right)
                yield _scaled(source, node.left)


def _scaled(source: CureSource, node: ast.expr) -> str:
    return source.replaced(node, f"{source.tensorflow}.nn.scale_regularization_loss({source.of(node)})")


CURE = _ScaledRegularization()
