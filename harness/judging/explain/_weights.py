"""Replicas that were put together with other weights than they should have had."""

from __future__ import annotations

from collections.abc import Iterable

from harness.judging.explain._prediction import Check, undone
from harness.judging.explain._view import CaseView


def uneven(view: CaseView, step: int) -> list[int] | None:
    """Examples per replica, when they are not the same everywhere."""
    shards = view.shards(step)
    counts = [] if shards is None else [len(shard) for shard in shards]
    return counts if len(set(counts)) > 1 else None


def reweighted(view: CaseView, observable: str, step: int, shares: list[float], divided: bool) -> Iterable[Check]:
    """The reference's value from the parts: each is a mean, divided by the number of replicas or not."""
    import numpy as np

    count = len(shares)
    for name in view.names(observable, step):
        parts = view.parts(observable, step, name)
        if parts is None or len(parts) != count:
            return
        weights = [share * (count if divided else 1) for share in shares]
        # A replica without examples counts for nothing, even if its mean over nothing is NaN.
        terms = [weight * part for weight, part in zip(weights, parts, strict=True) if weight]
        yield undone(view, observable, step, name, np.sum(terms, axis=0), count)
