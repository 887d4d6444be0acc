"""What one replica's value of a metric would be, and whether a value is a whole number or a fraction."""

from __future__ import annotations

from collections.abc import Iterator

from harness.judging.explain._view import CaseView, Floats

__all__ = ["examples_seen", "fraction", "own_values", "whole"]


def examples_seen(view: CaseView, step: int | None) -> list[int] | None:
    """How many examples each replica has seen up to and including a step; at the end: in all."""
    steps = [other for other in view.moments if other is not None and (step is None or other <= step)]
    shards = [view.shards(other) for other in steps]
    if not steps or any(found is None for found in shards):
        return None
    return [sum(len(found[replica]) for found in shards if found) for replica in range(view.replicas)]


def whole(array: Floats) -> bool:
    """Whether all are whole numbers."""
    import numpy as np

    return bool(np.all(array == np.round(array)))


def fraction(array: Floats, denominator: int) -> bool:
    """Whether a value is a whole number over the denominator, up to float32's rounding."""
    import numpy as np

    times = array * denominator
    return bool(np.all(np.abs(times - np.round(times)) <= 1e-6 * np.maximum(1.0, np.abs(times))))


def own_values(view: CaseView, step: int | None, name: str) -> Iterator[tuple[int, Floats]]:
    """Each replica's value: of a mean metric's state (total over count), or of the loss that it contributed."""
    steps = [other for other in view.steps("loss") if step is None or other <= step]
    state = _state(view, step)
    if state is not None:
        yield from (
            (replica, total / count) for replica, (total, count) in enumerate(zip(*state, strict=True)) if count
        )
    parts = [view.parts("loss", other, "loss") for other in steps]
    shards = [view.shards(other) for other in steps]
    if not steps or any(part is None for part in parts) or any(shard is None for shard in shards):
        return
    for replica in range(view.replicas):
        values = [
            part[replica] * sum(map(len, shard)) / len(shard[replica])
            for part, shard in zip(parts, shards, strict=True)
            if part is not None and shard is not None and shard[replica] and part[replica].size == 1
        ]
        if values:
            yield replica, values[-1]
            yield replica, sum(values[1:], values[0]) / len(values)


def _state(view: CaseView, step: int | None) -> tuple[list[Floats], list[Floats]] | None:
    names = view.names("variables", step)
    total = next(
        (name for name in names if name.endswith("total") and len(view.copies(step, name)) == view.replicas), None
    )
    if total is None or (count := total.removesuffix("total") + "count") not in names:
        return None
    return view.copies(step, total), view.copies(step, count)
