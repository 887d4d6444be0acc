"""A run that was killed after a step and started again: what was recorded until then, and where it has resumed.

A resumed program counts its calls of `record.step` from 1 again and does not say where it has resumed. It is aligned
with the reference by its end: the last step that it records is the reference's last, so that a program which records
n of N steps has resumed after step N - n. A program that misjudges where it is then shows other values than the
reference at these steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from harness.evidence.observed import epoch_ends, per_epoch
from harness.evidence.trace import ClientTrace, Counters, RunTrace
from harness.judging.laws.protocol import Case
from harness.judging.laws.updates_counted import counter
from harness.judging.tolerance import tolerance_of

if TYPE_CHECKING:
    from harness.evidence.reference import Reference

__all__ = ["Interruption", "interrupted_case", "resumed_part", "steps_between"]


@dataclass(frozen=True)
class Interruption:
    """What is known of an interrupted run besides the steps of its resumed part.

    Attributes:
        at: the step after which every task was killed, as the interrupted program counted its calls of `record.step`.
        before: what was recorded until then.
        recorded: how many steps the resumed run recorded: the most that any of its clients did.
        in_epochs: whether these are epochs, while the reference recorded every step.
        reference: the whole reference, of which a case of one part holds only that part.
        resume_strategy: the strategy of the resumed part.
        saved: the files in `record.directory` when the tasks were killed, relative to it.
    """

    at: int
    before: RunTrace
    recorded: int
    in_epochs: bool
    reference: RunTrace
    resume_strategy: str
    saved: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """The reference's steps."""
        return len(self.reference.clients[0].steps)

    @property
    def at_step(self) -> int:
        """The reference's step after which the run was killed; under parameter servers Keras records only epochs."""
        ends = epoch_ends(self.reference)
        if per_epoch(self.before, self.reference):
            return ends[min(self.at, len(ends)) - 1] if ends else self.at
        return self.at

    @property
    def begins_after(self) -> int:
        """The step of the reference that lies just before the resumed steps, by their number; negative if too many."""
        if self.in_epochs:
            ends = [0, *epoch_ends(self.reference)]
            left = len(ends) - 1 - self.recorded
            return ends[left] if left >= 0 else left
        return self.total - self.recorded

    @property
    def resumed_at(self) -> int:
        """The last step that the resumed run did not have to do again, from 0; never later than the interruption."""
        return min(max(0, self.begins_after), self.at_step)

    @property
    def kept(self) -> str:
        """What `record.directory` held, in words."""
        if not self.saved:
            return "record.directory was empty when it was killed"
        shown = ", ".join(self.saved[:3]) + (", ..." if len(self.saved) > 3 else "")
        return f"record.directory held {len(self.saved)} file{'s' if len(self.saved) > 1 else ''} ({shown})"

    def to_json(self) -> dict[str, Any]:
        """What verdicts say of it, in steps of the reference."""
        return {"at": self.at_step, "resumed_at": self.resumed_at, "resume_strategy": self.resume_strategy}


def interrupted_case(after: RunTrace, reference: Reference, interruption: Interruption) -> Case:
    """The case of the resumed part: what it recorded, and the steps of the reference that it should have recorded."""
    return Case(
        run=resumed_part(interruption, after),
        reference=steps_between(reference.trace, interruption.resumed_at + 1, None),
        tolerance=tolerance_of(reference),
        interruption=interruption,
    )


def resumed_part(interruption: Interruption, after: RunTrace) -> RunTrace:
    """The resumed run with the reference's step numbers, and with the closures scheduled for what it restored."""
    behind = interruption.resumed_at
    shift = 0 if interruption.in_epochs else behind  # ends of epochs are aligned when they are compared
    clients = []
    for number, client in enumerate(after.clients):
        steps = tuple(msgspec.structs.replace(step, index=step.index + shift) for step in client.steps)
        counters = client.counters
        if number == 0 and counters.scheduled is not None:
            counters = msgspec.structs.replace(counters, scheduled=counters.scheduled + _updates_until(interruption))
        clients.append(msgspec.structs.replace(client, steps=steps, counters=counters))
    return RunTrace(tuple(clients))


def _updates_until(interruption: Interruption) -> int:
    """The updates behind the restored state: those scheduled, or without a coordinator those it should count."""
    behind = interruption.resumed_at
    steps = interruption.before.clients[0].steps
    if per_epoch(interruption.before, interruption.reference):
        steps = steps[: sum(end <= behind for end in epoch_ends(interruption.reference))]
    counts = [step.scheduled for step in steps if step.index <= behind]
    if not counts:
        return 0
    expected = counter(steps_between(interruption.reference, 1, behind))
    return counts[-1] if counts[-1] is not None else 0 if expected is None else expected[1]


def steps_between(trace: RunTrace, first: int, last: int | None) -> RunTrace:
    """A run cut to the steps from `first` to `last`, both included; with `last` None to its end."""
    return RunTrace(tuple(_cut(client, first, last) for client in trace.clients))


def _cut(client: ClientTrace, first: int, last: int | None) -> ClientTrace:
    steps = tuple(step for step in client.steps if first <= step.index and (last is None or step.index <= last))
    if last is None:
        return msgspec.structs.replace(client, steps=steps)
    # What was counted over the whole run says nothing of a part of it.
    counters = Counters(per_epoch=client.counters.per_epoch)
    return msgspec.structs.replace(client, steps=steps, final=None, counters=counters)
