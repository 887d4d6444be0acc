"""A run cut to some of its steps."""

from __future__ import annotations

import msgspec

from harness.evidence.counters import Counters
from harness.evidence.trace import ClientTrace, RunTrace, SeenVariable, Start


def steps_between(trace: RunTrace, first: int, last: int | None) -> RunTrace:
    """A run cut to the steps from `first` to `last`, both included; with `last` None to its end.

    It starts with what the first one began with, where that is known, or else with what the step before has left.
    """
    return RunTrace(tuple(_cut(client, first, last) for client in trace.clients))


def _cut(client: ClientTrace, first: int, last: int | None) -> ClientTrace:
    steps = tuple(step for step in client.steps if first <= step.index and (last is None or step.index <= last))
    if first > 1 and client.start is not None:
        before = next((step for step in client.steps if step.index == first - 1), None)
        held = () if before is None else before.variables or ()
        left = Start(client.start.at, tuple(SeenVariable(each.name, "plain", (each.value,)) for each in held))
        start = next((each for each in client.starts if each.step == first and not each.lead), left)
        client = msgspec.structs.replace(client, start=start)
    if last is None:
        return msgspec.structs.replace(client, steps=steps)
    # What was counted over the whole run says nothing of a part of it.
    counters = Counters(per_epoch=client.counters.per_epoch)
    return msgspec.structs.replace(client, steps=steps, final=None, counters=counters)
