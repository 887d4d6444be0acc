"""Cause: two workers have read every example, whatever the order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.judging.explain.causes.protocol import Cause, Inputs, Total


@dataclass(frozen=True)
class _ReadTwice:
    id: str = "read_by_two"
    priority: int = 90
    kinds: tuple[str, ...] = ("Shard",)
    what: str = "every example was read by two workers"

    def predictions(self, inputs: Inputs) -> Iterable[Total]:
        yield Total("every example was read by two workers.", [*inputs.truth, *inputs.truth])


CAUSE: Cause = _ReadTwice()
