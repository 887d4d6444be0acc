"""Rule: over the run every example was consumed as often as by the reference, but at other steps."""

from __future__ import annotations

from dataclasses import dataclass

from harness.judging.explain._examples import amiss, explained
from harness.judging.explain.protocol import Case, Explanation, Rule


@dataclass(frozen=True)
class _ExamplesAtOtherSteps:
    id: str = "examples_at_other_steps"
    priority: int = 22

    def explain(self, case: Case) -> Explanation | None:
        found = amiss(case)
        # A mere change of order has too many reasons to name one: only a cause that reproduces it is a claim.
        if found is None or found.missing or found.surplus or found.cause is None:
            return None
        steps = [len(ledger.reached) for ledger in (found.both.run, found.both.reference)]
        what = (
            f"From step {found.step} on, steps hold other examples than the reference's, in {steps[0]} steps instead "
            f"of {steps[1]}; over the whole run each example was consumed as often as by the reference."
        )
        return explained(self.id, found, what, "")


RULES: tuple[Rule, ...] = (_ExamplesAtOtherSteps(),)
