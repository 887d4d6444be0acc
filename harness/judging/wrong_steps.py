"""Which steps are wrong by themselves, of a case whose reference began each of them with the run's own variables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.evidence.observed import epoch_ends, per_epoch
from harness.evidence.step_range import steps_between
from harness.judging.laws import Case, all_laws
from harness.judging.wording import joined

_SHOWN_MAX = 8


@dataclass(frozen=True)
class StepsAlone:
    """Steps of the reference, each judged for itself.

    Attributes:
        wrong: those at which the run differs from the reference.
        right: how many agree with it, by each law that is broken at any step; a step is neither if nothing was compared
            there.
        last: the last step that was judged, 0 if none was.
    """

    wrong: tuple[int, ...]
    right: int
    last: int = 0

    @property
    def hide_others(self) -> bool:
        """Whether a step after the first wrong one is not wrong by itself, so that it can only have followed."""
        return bool(self.wrong) and self.last - self.wrong[0] >= len(self.wrong)

    @property
    def text(self) -> str:
        """In words."""
        right = f"{self.right} step{' agrees' if self.right == 1 else 's agree'} with the reference"
        others = f", {right}" if self.right else ""
        if not self.wrong:
            return f"no step is wrong by itself{others}"
        first = self.wrong[0]
        if len(self.wrong) > 1 and self.wrong == tuple(range(first, self.last + 1)):
            return f"each step from {first} on is wrong by itself{others}"
        what = "step" if len(self.wrong) == 1 else "steps"
        is_wrong = "is wrong by itself" if len(self.wrong) == 1 else "are wrong by themselves"
        return f"{what} {_listed(self.wrong)} {is_wrong}{others}"


def wrong_steps_of(case: Case, but: Collection[str] = ()) -> StepsAlone:
    """Ask the laws that compare with the reference, but for some, about each step that both reached."""
    laws = [law for law in all_laws() if law.suffices and law.id.endswith("_reference") and law.id not in but]
    found = {
        step: {law.id: law.judge(alone).status for law in laws if law.concerns(alone)}
        for step, alone in each_step(case)
    }
    judged = [step for step, said in found.items() if {"broken", "held"} & {*said.values()}]
    wrong = [step for step, said in found.items() if "broken" in said.values()]
    # A step at which nobody could judge what is wrong at another one is neither right nor wrong.
    asked = {law for step in wrong for law, status in found[step].items() if status == "broken"}
    right = [step for step in judged if step not in wrong and all(found[step].get(law) == "held" for law in asked)]
    return StepsAlone(tuple(wrong), len(right), judged[-1] if judged else 0)


def each_step(case: Case) -> Iterator[tuple[int, Case]]:
    """Every step that both reached, by its number in the reference, or every epoch where the run has only those."""
    taken = {step.index for client in case.run.clients for step in client.steps}
    steps = [step.index for step in case.reference.clients[0].steps]
    ends = epoch_ends(case.reference) if per_epoch(case.run, case.reference) else None
    spans = [(step, step, step) for step in steps]
    if ends is not None:
        begins = [before + 1 for before, _ in pairwise([0, *ends])]
        spans = [(number, *span) for number, span in enumerate(zip(begins, ends, strict=True), start=1)]
    for number, first, end in spans:
        if number in taken:
            run, reference = steps_between(case.run, number, number), steps_between(case.reference, first, end)
            yield end, replace(case, run=run, reference=reference)


def _listed(steps: Sequence[int]) -> str:
    """`3, 5 to 7 and 9`; of many the first ones."""
    spans: list[list[int]] = []
    for step in steps:
        if spans and step == spans[-1][-1] + 1:
            spans[-1][1:] = [step]
        else:
            spans.append([step])
    shown: list[str] = []
    for span in spans:
        shown += [f"{span[0]} to {span[-1]}"] if span[-1] > span[0] + 1 else list(map(str, span))
    if len(shown) > _SHOWN_MAX:
        shown = [*shown[:_SHOWN_MAX], f"{len(shown) - _SHOWN_MAX} more"]
    return joined(shown)
