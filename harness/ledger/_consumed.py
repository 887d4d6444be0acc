"""Integer columns with one row for each example consumed, and the questions they answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from harness.ledger._multiset import Ints, Mask, counted, elements

C = TypeVar("C", bound="Consumed")


@dataclass(frozen=True, eq=False)
class Batches:
    """One row for each batch of one replica at one step, empty ones too; all columns are int64 of the same length.

    `client` and `worker` number the ledger's `clients` and `workers`; `replica` counts over all workers.
    """

    epoch: Ints
    step: Ints
    client: Ints
    worker: Ints
    replica: Ints
    size: Ints

    def where(self, mask: Mask) -> Batches:
        """The rows that a mask selects."""
        return Batches(*(column[mask] for column in self.columns))

    @property
    def columns(self) -> tuple[Ints, ...]:
        """The columns in the order of the fields."""
        return self.epoch, self.step, self.client, self.worker, self.replica, self.size


@dataclass(frozen=True, eq=False)
class Consumed:
    """Every example that a run consumed, in the order recorded.

    `id` and the properties `epoch`, `step`, `client`, `worker`, `replica` and `position` are int64 columns with one
    entry for each example consumed.

    Attributes:
        clients: tasks of the processes that recorded examples, the chief or worker 0 first; `client` numbers them.
        workers: the tasks that consumed examples; `worker` numbers them. They are the clients, but where the chief of
            parameter-server training reported what its workers consumed.
        replicas: how many replicas each worker has; `replica` counts over all workers in this order.
        silent: clients that never recorded examples.
        reached: every step that any client recorded, ascending.
        batches: the columns with one row for each batch of a replica.
        id: the ids.
        undone: steps of an interrupted run that `joined` left out, because the resumed run did them again.
    """

    clients: tuple[str, ...]
    workers: tuple[str, ...]
    replicas: tuple[int, ...]
    silent: tuple[str, ...]
    reached: tuple[int, ...]
    batches: Batches
    id: Ints
    undone: tuple[int, ...] = ()

    @cached_property
    def epoch(self) -> Ints:
        """The epoch in which each example was consumed."""
        return self._spread(self.batches.epoch)

    @cached_property
    def step(self) -> Ints:
        """The step at which each example was consumed."""
        return self._spread(self.batches.step)

    @cached_property
    def client(self) -> Ints:
        """The number of the client that recorded each example."""
        return self._spread(self.batches.client)

    @cached_property
    def worker(self) -> Ints:
        """The number of the worker that consumed each example."""
        return self._spread(self.batches.worker)

    @cached_property
    def replica(self) -> Ints:
        """The replica that consumed each example, counted over all workers."""
        return self._spread(self.batches.replica)

    @cached_property
    def position(self) -> Ints:
        """The place of each example among all that its worker consumed, from 0."""
        import numpy as np

        rows = np.argsort(self.worker, kind="stable")
        counts = np.bincount(self.worker, minlength=len(self.workers))
        places = np.empty(len(rows), np.int64)
        places[rows] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return places

    def __len__(self) -> int:
        return len(self.id)

    def __repr__(self) -> str:
        """One line: how much of what there is."""
        return (
            f"<Consumed of {len(self)} examples, {len(self.steps())} steps, {len(self.epochs())} epochs, "
            f"{len(self.workers)} workers, {sum(self.replicas)} replicas>"
        )

    def counts(self) -> Counter[int]:
        """How often each example was consumed."""
        return counted(self.id)

    def missing(self, expected: Consumed | Iterable[int] | Mapping[int, int]) -> Counter[int]:
        """The examples consumed less often than expected, and how much less often.

        Args:
            expected: ids, one for each time it should be consumed; or a mapping from id to that number; or a ledger.
        """
        return counted(_ids(expected)) - self.counts()

    def surplus(self, expected: Consumed | Iterable[int] | Mapping[int, int]) -> Counter[int]:
        """The examples consumed more often than expected, and how much more often; `expected` as in `missing`."""
        return self.counts() - counted(_ids(expected))

    def by_worker(self) -> dict[str, list[int]]:
        """The ids that each worker consumed, in its order; a worker that consumed none has an empty list."""
        return {task: self.id[self.worker == k].tolist() for k, task in enumerate(self.workers)}

    def by_replica(self) -> dict[int, list[int]]:
        """The ids that each replica consumed, in its order."""
        return {k: self.id[self.replica == k].tolist() for k in range(sum(self.replicas))}

    def sizes(self) -> dict[int, dict[str, tuple[int, ...]]]:
        """By step and worker, how many examples each of the worker's replicas consumed, 0 included."""
        found: dict[int, dict[str, tuple[int, ...]]] = {}
        rows = zip(
            *(column.tolist() for column in (self.batches.step, self.batches.worker, self.batches.size)), strict=True
        )
        for step, worker, size in sorted(rows, key=lambda row: row[:2]):
            tasks = found.setdefault(step, {})
            tasks[self.workers[worker]] = (*tasks.get(self.workers[worker], ()), size)
        return found

    def epochs(self) -> list[int]:
        """The numbers of the epochs, ascending."""
        return sorted(set(self.batches.epoch.tolist()))

    def steps(self) -> list[int]:
        """The numbers of all steps recorded, ascending, those at which nothing was consumed too."""
        return list(self.reached)

    def order(
        self,
        *,
        epoch: int | None = None,
        step: int | None = None,
        worker: str | None = None,
        replica: int | None = None,
    ) -> list[int]:
        """The ids in the order consumed, by step and then by replica; of a part of the ledger as in `where`."""
        import numpy as np

        part = self.where(epoch=epoch, step=step, worker=worker, replica=replica)
        order: list[int] = part.id[np.lexsort((part.replica, part.step))].tolist()
        return order

    def where(
        self: C,
        *,
        epoch: int | None = None,
        step: int | None = None,
        worker: str | None = None,
        replica: int | None = None,
    ) -> C:
        """The part of the ledger that belongs to an epoch, a step, a worker or a replica, all that are given.

        Raises:
            ValueError: there is no such worker.
        """
        import numpy as np

        mask = np.ones(len(self.batches.step), bool)
        if worker is not None and worker not in self.workers:
            raise ValueError(f"{worker} consumed no examples; those who did are {', '.join(self.workers) or 'nobody'}")
        number = None if worker is None else self.workers.index(worker)
        wanted = {"epoch": epoch, "step": step, "worker": number, "replica": replica}
        for name, value in wanted.items():
            if value is not None:
                mask &= getattr(self.batches, name) == value
        part = self.only(mask)
        return part if epoch is None and step is None else part.with_steps_recorded()

    def only(self: C, mask: Mask) -> C:
        """The ledger of the batches that a mask of booleans selects; it keeps all workers and steps."""
        import numpy as np

        return replace(self, batches=self.batches.where(mask), id=self.id[np.repeat(mask, self.batches.size)])

    def with_steps_recorded(self: C) -> C:
        """The same, with only those steps `reached` that have batches."""
        return replace(self, reached=tuple(sorted(set(self.batches.step.tolist()))))

    def _spread(self, column: Ints) -> Ints:
        import numpy as np

        return np.repeat(column, self.batches.size)


def _ids(expected: Consumed | Iterable[int] | Mapping[int, int]) -> Ints:
    return expected.id if isinstance(expected, Consumed) else elements(expected)
