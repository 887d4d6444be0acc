"""Which examples a run consumed, as multisets of ids, step by step next to the reference's."""

from __future__ import annotations

from collections import Counter

from harness.laws.protocol import Case
from harness.observed import moments, per_epoch
from harness.trace import Final, RunTrace, Step

__all__ = ["by_step", "recorders"]


def recorders(run: RunTrace) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tasks of the clients that recorded examples at any step, and of those that never did."""
    did = {client.header.task: any(step.examples is not None for step in client.steps) for client in run.clients}
    return tuple(task for task in did if did[task]), tuple(task for task in did if not did[task])


def by_step(case: Case) -> tuple[tuple[int, Counter[int], Counter[int]], ...]:
    """(step, examples of the run, examples of the reference) at every step that both reached.

    Where the run recorded only the ends of epochs, the reference's examples of the whole epoch are put together.
    """
    truth: dict[int, Counter[int]] = {}
    pending: Counter[int] = Counter()
    epochs = per_epoch(case.run, case.reference)
    reached = {moment.step: moment.records for moment in moments(case.run, aligned_to=case.reference)}
    for moment in moments(case.reference):
        if moment.step is None:
            continue
        pending += _ids(moment.records)
        if moment.step in reached:
            truth[moment.step] = pending
        if moment.step in reached or not epochs:
            pending = Counter()
    return tuple((step, _ids(reached[step]), expected) for step, expected in truth.items())


def _ids(records: tuple[Step | Final | None, ...]) -> Counter[int]:
    steps = (record for record in records if isinstance(record, Step))
    return Counter(key for step in steps for replica in step.examples or () for key in replica)
