"""Puts the means that Keras metrics keep into the steps of traces, as if the program had reported them.

Each is the mean of what all replicas have added in one step. Where each replica counts a call, and not its examples,
nothing tells how much it weighs: the reference's value is taken for the run's where it lies between the replicas'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from harness.evidence.trace import Array, ClientTrace, RunTrace, Step, Value

if TYPE_CHECKING:
    import numpy as np

    Parts = list[np.ndarray[tuple[int], np.dtype[np.float64]]]

_Place = tuple[int, str]
"""A step, and the name of a metric."""


def with_metric_means(traces: Sequence[RunTrace], *, of_calls: bool = False) -> list[RunTrace]:
    """These with each mean that everybody has seen at a step.

    Args:
        traces: the reference's first.
        of_calls: whether a mean of calls is what it is, and not the reference's.
    """
    parts = list(map(_parts, traces))
    reference = parts[0]
    places = [place for place in reference if all(place in each for each in parts)]
    return [
        _with_means(trace, {place: _mean(own[place], reference[place], of_calls) for place in places})
        for trace, own in zip(traces, parts, strict=True)
    ]


def _parts(trace: RunTrace) -> dict[_Place, Parts]:
    """What each replica of all clients has added, `[sum, count]`; nothing of a mean that some client has not."""
    by_client = [
        {(step.index, mean.name): mean.parts for step in client.steps if step.seen for mean in step.seen.means}
        for client in trace.clients
    ]
    common = [place for place in by_client[0] if all(place in each for each in by_client)]
    return {place: [part.numpy() for each in by_client for part in each[place]] for place in common}


def _mean(parts: Parts, reference: Parts, of_calls: bool) -> float | None:
    """The mean of all; None where nothing was counted."""
    count, of_reference = (float(sum(part[1] for part in each)) for each in (parts, reference))
    if not count or not of_reference:
        return None
    counts_calls = len(parts) > len(reference) and count * len(reference) == of_reference * len(parts)
    if counts_calls and not of_calls:
        means = [float(part[0] / part[1]) for part in parts if part[1]]
        expected = float(sum(part[0] for part in reference)) / of_reference
        if min(means) <= expected <= max(means):
            return expected
    return float(sum(part[0] for part in parts)) / count


def _with_means(trace: RunTrace, means: dict[_Place, float | None]) -> RunTrace:
    import numpy as np

    values: dict[int, list[Value]] = {}
    for (step, name), mean in means.items():
        if mean is not None:
            values.setdefault(step, []).append(Value(name, (Array.of(np.float32(mean)),)))

    def of_step(step: Step) -> Step:
        found = values.get(step.index)
        return step if found is None else msgspec.structs.replace(step, metrics=tuple(found))

    def of_client(client: ClientTrace) -> ClientTrace:
        return msgspec.structs.replace(client, steps=tuple(map(of_step, client.steps)))

    return RunTrace(tuple(map(of_client, trace.clients))) if values else trace
