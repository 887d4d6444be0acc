"""What the rules about examples share: what is too many and what too few, and the text of a cause."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from harness.evidence.witness_values import for_coordinator
from harness.judging.explain._view import view_of
from harness.judging.explain.causes import NamedCause, cause_of
from harness.judging.explain.protocol import Case, Explanation
from harness.ledger import Aligned, aligned

_SHOWN_MAX = 8


@dataclass(frozen=True, eq=False)
class WrongExamples:
    """A run whose examples differ from the reference's: where from on, and how over the whole run."""

    case: Case
    both: Aligned
    step: int
    surplus: Counter[int]
    missing: Counter[int]

    @property
    def cause(self) -> NamedCause | None:
        """Which mistake in the input pipeline it is."""
        return cause_of(self.case)


def amiss(case: Case) -> WrongExamples | None:
    """None when a client recorded no examples or nothing is wrong; a mere change of order counts as wrong.

    What steps consumed that only one of the two has taken is nothing wrong with the examples of a run whose other steps
    are right, unless it is the tail that a known cause drops. What a coordinator's workers read is a condition where a
    process has followed the run, and explains nothing.
    """
    if case.follows and for_coordinator(case.run):
        return None
    both = aligned(case.run, case.reference)
    if both.run.silent or not both.run.clients or not len(both.reference):
        return None
    found = [both.overall] if both.asynchronous else [both.by_step, both.overall]
    if not any(map(len, found)) or (_only_steps_differ(both) and not shard_tail(case)):
        return None
    steps = [] if both.asynchronous else both.by_step.groups()
    # Where the steps in common are right, the difference lies in steps that only one of them has.
    others = sorted(set(both.run.reached) ^ set(both.reference.reached))
    return WrongExamples(
        case,
        both,
        (steps or others or [1])[0],
        both.run.surplus(both.reference),
        both.run.missing(both.reference),
    )


def _only_steps_differ(both: Aligned) -> bool:
    return not both.asynchronous and not len(both.by_step) and both.run.reached != both.reference.reached


def shard_tail(case: Case) -> bool:
    """Whether the run ends before the reference by what a known cause drops, or by batches that are not full."""
    both = aligned(case.run, case.reference)
    left = set(both.reference.reached) - set(both.run.reached)
    if both.asynchronous or not left or not set(both.run.reached) < set(both.reference.reached):
        return False
    sizes = {step: sum(map(sum, found.values())) for step, found in both.reference.sizes().items()}
    partial = all(sizes.get(step, 0) < max(sizes.values()) for step in left) if sizes else False
    return partial or cause_of(case) is not None


def explained(rule: str, found: WrongExamples, what: str, hint: str) -> Explanation | None:
    """What was found and its cause; without a cause, where to look.

    None where no cause is known and a step before has computed what is wrong, which may decide what later ones are
    given: a loop until something converges takes another number of turns.
    """
    # Of what is left after a death causes in the pipeline say nothing: the steps before would show them too.
    cause = None if found.case.interruption is not None else found.cause
    if cause is None:
        wrong = view_of(found.case).first_wrong("variables")
        if wrong is not None and wrong < found.step:
            return None
        tried = "None of the known causes reproduces who consumed what."
        return Explanation(rule, f"{what} {tried}", hint)
    return Explanation(rule, what, f"Cause, {cause.cause}: {cause.text}", cause.cause)


def listed(ids: Counter[int]) -> str:
    """`3 examples (ids 1, 5, 9)`."""
    plural = "s" if len(ids) > 1 else ""
    shown = ", ".join(map(str, sorted(ids)[:_SHOWN_MAX])) + (", ..." if len(ids) > _SHOWN_MAX else "")
    return f"{len(ids)} example{plural} (id{plural} {shown})"
