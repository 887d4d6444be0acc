"""What the rules about lost and repeated updates share: counters, and what one update does to the variables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.evidence.observed import is_integer
from harness.judging.explain._prediction import Check
from harness.judging.explain._view import CaseView
from harness.judging.laws.updates_counted import counter


@dataclass(frozen=True)
class Counts:
    """Updates as the coordinator scheduled them, as the run's counter has them, and as the reference's has."""

    scheduled: int | None
    applied: int | None
    expected: int | None
    name: str

    def surplus(self) -> int:
        """Updates too many, negative for too few; 0 where nothing tells."""
        applied = self.scheduled if self.applied is None else self.applied
        if applied is None:
            return 0
        if self.expected is not None and applied != self.expected:
            return applied - self.expected
        return applied - self.scheduled if self.scheduled is not None else 0

    def text(self) -> str:
        """The three numbers."""
        said = []
        if self.scheduled is not None:
            said.append(f"{self.scheduled} updates were scheduled")
        if self.applied is not None:
            said.append(f"{self.name!r} counts {self.applied}")
        if self.expected is not None:
            said.append(f"the reference made {self.expected}")
        return ", ".join(said)


def counts(view: CaseView) -> Counts:
    """What is known of the numbers of updates."""
    steps = [len(trace.clients[0].steps) for trace in (view.case.run, view.case.reference)]
    scheduled = [client.counters.scheduled for client in view.case.run.clients if client.counters.scheduled is not None]
    ours, truth = counter(view.case.run), counter(view.case.reference)
    if not scheduled and steps[0] != steps[1]:
        ours = None  # fewer steps make fewer updates, and none of them is lost
    return Counts(
        sum(scheduled) if scheduled else None,
        None if ours is None else ours[1],
        None if truth is None else truth[1],
        "" if ours is None else ours[0],
    )


def _end(view: CaseView) -> tuple[int | None, int | None, list[str]] | None:
    """The last moment at which each recorded variables, in the run and in the reference, and the floating variables."""
    ours, truth = view.run["variables"], view.reference["variables"]
    if not ours or not truth:
        return None
    last, final = (None, None) if None in ours and None in truth else (_last(ours), _last(truth))
    names = [name for name in truth[final] if name in ours[last]]
    return last, final, [name for name in names if not is_integer(truth[final][name].dtype)]


def _last(steps: Mapping[int | None, object]) -> int | None:
    return [*steps][-1]


def changed_by(view: CaseView, times: int) -> Iterator[tuple[int, list[Check]]]:
    """For each of the reference's updates: the prediction that it was applied `times` times more often.

    What an update does is the reference's change from one step to the next, which is the same wherever updates commute.
    """
    found = _end(view)
    if found is None:
        return
    last, final, names = found
    history = view.reference["variables"]
    steps = [step for step in history if step is not None]
    for before, step in itertools.pairwise(steps):
        if all(name in history[before] and name in history[step] for name in names):
            yield (
                step,
                [
                    Check(
                        view.value("variables", last, name),
                        truth + times * (view.truth("variables", step, name) - view.truth("variables", before, name)),
                        truth,
                        3 * view.bound("variables", name, final),
                        view.run["variables"][last][name].dtype,
                    )
                    for name in names
                    for truth in [view.truth("variables", final, name)]
                ],
            )
