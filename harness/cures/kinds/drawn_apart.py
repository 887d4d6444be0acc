"""Cure: each replica draws numbers of its own, by a seed that has the replica's number in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from harness.cures.protocol import CureSource, called

_APART = 100_003
"""Between the seeds of two replicas; programs count their steps in a seed, and the first replica keeps its own."""


class _DrawnApart:
    codes: tuple[str, ...] = ("draws", "identical_random_streams")

    def changed(self, source: CureSource) -> Iterator[str]:
        for call in source.nodes(ast.Call):
            if not called(call).startswith("stateless_"):
                continue
            given = [*(word.value for word in call.keywords if word.arg == "seed"), *call.args[1:2]]
            for seed in given[:1]:
                if isinstance(seed, (ast.List, ast.Tuple)) and seed.elts:
                    own = f"{source.context}.replica_id_in_sync_group"
                    yield source.replaced(seed.elts[0], f"{source.of(seed.elts[0])} + {_APART} * {own}")


CURE = _DrawnApart()
