"""The ledger of a run: read from traces, joined after an interruption, shown as a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from harness.evidence.trace import RunTrace
from harness.ledger._build import ledger_of
from harness.ledger._consumed import Batches, Consumed
from harness.ledger._multiset import Ints
from harness.ledger._table import table


class Ledger(Consumed):
    """Every example that a run consumed, in the order recorded; `Consumed` says which columns there are."""

    @classmethod
    def of(cls, run: RunTrace, reference: RunTrace | None = None) -> Ledger:
        """Read the examples of a run.

        Epochs are those given to `record.step`. Where a run gave none, its steps belong to the epochs of the same steps
        of the reference; where that gave none either, an epoch of the reference ends whenever all of its examples have
        been seen once (see `docs/ledger.md`), and so does one of a run that takes other steps. Without a reference, or
        if its examples do not repeat in this way, all steps are epoch 1.
        """
        return ledger_of(cls, run, reference)

    @staticmethod
    def joined(before: Ledger, after: Ledger, resumed_at: int | None = None) -> Ledger:
        """The ledger of an interrupted run and of the run that resumed it, as of one run.

        Args:
            before: of the interrupted run.
            after: of the resumed run. If it counts its steps from 1 again, they are counted on.
            resumed_at: the last step that the resumed run restored, 0 if it began anew. Later steps of the interrupted
                run are `undone`: their effect is lost, so their examples do not count. Not given: all steps count.
        """
        return _joined(before, after, resumed_at)

    def table(self, expected: Ledger | None = None, *, width: int = 110, rows: int = 12) -> str:
        """Workers across, steps down: sizes of the replicas' batches, first and last id, ids too often and missing.

        Args:
            expected: the reference's ledger, to compare each step with. Without it, an id is too often if it occurred
                before in the same epoch.
            width: characters in a line at most; workers that do not fit in are counted.
            rows: steps shown at most, wrong ones before others.
        """
        return table(self, expected, width=width, rows=rows)


# The ledger of an interrupted run and the one of the run that resumed it, put together.


C = TypeVar("C", bound=Consumed)


def _joined(before: C, after: C, resumed_at: int | None) -> C:
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
