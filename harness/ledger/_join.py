"""The ledger of an interrupted run and the one of the run that resumed it, put together."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from harness.ledger._consumed import Batches, Consumed
from harness.ledger._multiset import Ints

__all__ = ["joined"]

C = TypeVar("C", bound=Consumed)


def joined(before: C, after: C, resumed_at: int | None) -> C:
    """See `Ledger.joined`."""
    import numpy as np

    undone: tuple[int, ...] = ()
    if resumed_at is not None:
        undone = tuple(step for step in before.reached if step > resumed_at)
        before = replace(
            before.only(before.batches.step <= resumed_at),
            reached=tuple(step for step in before.reached if step <= resumed_at),
        )
    last = resumed_at if resumed_at is not None else max(before.reached, default=0)
    offset = last if after.reached and after.reached[0] <= last else 0
    clients, workers = (tuple(dict.fromkeys(a + b)) for a, b in _names(before, after))
    replicas = tuple(max(_replicas(before, task), _replicas(after, task)) for task in workers)
    halves = [_renumbered(half, clients, workers, replicas) for half in (before, after)]
    halves[1] = replace(halves[1], step=halves[1].step + offset)
    columns = zip(halves[0].columns, halves[1].columns, strict=True)
    return replace(
        before,
        clients=clients,
        workers=workers,
        replicas=replicas,
        silent=tuple(task for task in dict.fromkeys(before.silent + after.silent) if task not in clients),
        reached=tuple(sorted({*before.reached, *(step + offset for step in after.reached)})),
        batches=type(before.batches)(*(np.concatenate(pair) for pair in columns)),
        id=np.concatenate([before.id, after.id]),
        undone=undone,
    )


def _names(before: Consumed, after: Consumed) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    return (before.clients, after.clients), (before.workers, after.workers)


def _replicas(ledger: Consumed, task: str) -> int:
    return ledger.replicas[ledger.workers.index(task)] if task in ledger.workers else 0


def _renumbered(
    ledger: Consumed, clients: tuple[str, ...], workers: tuple[str, ...], replicas: tuple[int, ...]
) -> Batches:
    """The batches with the numbers that clients, workers and replicas have in the whole."""
    import numpy as np

    def moved(column: Ints, numbers: list[int]) -> Ints:
        return np.asarray(numbers, np.int64)[column] if len(column) else column

    old = np.cumsum([0, *ledger.replicas])
    new = np.cumsum([0, *replicas])
    shift = [int(new[workers.index(task)] - old[k]) for k, task in enumerate(ledger.workers)]
    found = ledger.batches
    return replace(
        found,
        client=moved(found.client, [clients.index(task) for task in ledger.clients]),
        worker=moved(found.worker, [workers.index(task) for task in ledger.workers]),
        replica=found.replica + moved(found.worker, shift),
    )
