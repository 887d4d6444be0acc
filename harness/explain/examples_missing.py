"""Rule: some of the reference's examples were never consumed, and none too often."""

from __future__ import annotations

from dataclasses import dataclass

from harness.explain._examples import listed, totals
from harness.explain.protocol import Case, Explanation, Rule

__all__ = ["RULES"]


@dataclass(frozen=True)
class _ExamplesMissing:
    id: str = "examples_missing"
    priority: int = 20

    def explain(self, case: Case) -> Explanation | None:
        found = totals(case)
        if found is None:
            return None
        step, seen, truth = found
        missing = truth - seen
        if not missing or seen - truth:
            return None
        text = (
            f"From step {step} on, the run consumed {listed(missing)} of {truth.total()} less often than the "
            "reference and none more often. Usual cause: a tail was dropped. Look for batch(..., drop_remainder=True), "
            "an integer division of the batch by the number of replicas, steps_per_epoch rounded down, or shards of "
            "unequal length of which the shortest ends the epoch."
        )
        return Explanation(self.id, text)


RULES: tuple[Rule, ...] = (_ExamplesMissing(),)
