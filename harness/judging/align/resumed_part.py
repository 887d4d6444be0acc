"""The last part of an interrupted run, held against the steps of the reference that it had yet to do."""

from __future__ import annotations

import msgspec

from harness.evidence.observed import epoch_ends, per_epoch
from harness.evidence.reference import Reference
from harness.evidence.step_range import steps_between
from harness.evidence.trace import RunTrace
from harness.judging.interruption import Interruption
from harness.judging.laws.protocol import Case
from harness.judging.laws.updates_counted import counter
from harness.judging.tolerance import tolerance_of

__all__ = ["interrupted_case"]


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
