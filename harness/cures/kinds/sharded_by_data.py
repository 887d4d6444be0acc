"""Cure: each worker reads its own examples, as TensorFlow shards them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.cures.protocol import CureSource

_OTHERS = ("OFF", "FILE", "AUTO")


class _ShardedByData:
    codes: tuple[str, ...] = ("examples_duplicated", "examples_missing", "examples_at_other_steps")

    def changed(self, source: CureSource) -> Iterator[str]:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and node.attr in _OTHERS and "AutoShardPolicy" in source.of(node):
                yield source.replaced(node, f"{source.of(node.value)}.DATA")


CURE = _ShardedByData()
