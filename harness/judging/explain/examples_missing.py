"""Rule: some of the reference's examples were never consumed, and none too often."""

from __future__ import annotations

from dataclasses import dataclass

from harness.judging.explain._examples import amiss, explained, listed
from harness.judging.explain.protocol import Case, Explanation, Rule

_TAIL = (
    "Usual cause: a tail was dropped. Look for batch(..., drop_remainder=True), an integer division of the batch by "
    "the number of replicas, steps_per_epoch rounded down, or shards of unequal length of which the shortest ends the "
    "epoch."
)

_RESUMED = (
    "The steps before the interruption had all theirs: look for what the run took for its position in the data when it "
    "was started again, and whether every worker took the same."
)


@dataclass(frozen=True)
class _ExamplesMissing:
    id: str = "examples_missing"
    priority: int = 20

    def explain(self, case: Case) -> Explanation | None:
        found = amiss(case)
        if found is None or not found.missing or found.surplus:
            return None
        since = "Over the run" if found.both.asynchronous else f"From step {found.step} on"
        what = (
            f"{since}, the run consumed {listed(found.missing)} of {len(found.both.reference)} less often than the "
            "reference and none more often."
        )
        return explained(self.id, found, what, _TAIL if case.interruption is None else _RESUMED)


RULES: tuple[Rule, ...] = (_ExamplesMissing(),)
