"""From traces to the columns of a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, TypeVar

from harness.evidence.trace import ClientTrace, RunTrace, Step
from harness.ledger._consumed import Batches, Consumed

C = TypeVar("C", bound=Consumed)

_NO_EPOCH = 1
"""The epoch of all steps where nobody says or shows where epochs end."""


def ledger_of(kind: type[C], run: RunTrace, reference: RunTrace | None) -> C:
    """See `Ledger.of`."""
    import numpy as np

    recorded = [(number, client) for number, client in enumerate(run.clients) if _records(client)]
    workers, replicas = _workers([client for _, client in recorded])
    first = dict(zip(workers, np.cumsum([0, *replicas]).tolist()[:-1], strict=True))
    places = {task: number for number, task in enumerate(workers)}
    rows: list[tuple[int | None, int, int, int, int, int]] = []
    shards: list[Sequence[int]] = []
    for client_number, (_, client) in enumerate(recorded):
        for step in client.steps:
            for task, local, shard in _shards(client, step):
                rows.append((step.epoch, step.index, client_number, places[task], first[task] + local, len(shard)))
                shards.append(shard)
    total = sum(row[-1] for row in rows)
    epochs = _epochs_of_steps(run, reference) if any(row[0] is None for row in rows) else None
    found = [_NO_EPOCH if epochs is None else epochs.get(row[1], _NO_EPOCH) for row in rows]
    table = np.array(
        [
            (row[0] if epochs is None and row[0] is not None else epoch, *row[1:])
            for row, epoch in zip(rows, found, strict=True)
        ],
        np.int64,
    )
    return kind(
        clients=tuple(client.header.task for _, client in recorded),
        workers=workers,
        replicas=replicas,
        silent=tuple(client.header.task for client in run.clients if not _records(client)),
        reached=tuple(sorted({step.index for client in run.clients for step in client.steps})),
        batches=Batches(*table.reshape(len(rows), 6).T),
        id=np.fromiter(chain.from_iterable(shards), np.int64, total),
    )


def _records(client: ClientTrace) -> bool:
    return any(step.examples is not None for step in client.steps)


def _shards(client: ClientTrace, step: Step) -> list[tuple[str, int, Sequence[int]]]:
    """The task, the number of its local replica, and the ids, for every batch of one step."""
    seen: dict[str, int] = {}
    found: list[tuple[str, int, Sequence[int]]] = []
    examples = step.examples or ()
    for task, shard in zip(step.consumers or [client.header.task] * len(examples), examples, strict=True):
        found.append((task, seen.get(task, 0), shard))
        seen[task] = seen.get(task, 0) + 1
    return found


def _workers(clients: Sequence[ClientTrace]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The tasks that consumed something, clients in their order and reported tasks by name, and their replicas."""
    found: dict[str, int] = {}
    for client in clients:
        reported: dict[str, int] = {}
        for step in client.steps:
            if step.examples is not None and step.consumers is None:
                own = max(client.header.local_replicas, len(step.examples))
                found[client.header.task] = max(found.get(client.header.task, 0), own)
            for task in step.consumers or ():
                reported.setdefault(task, 1)
            for task, local, _ in _shards(client, step) if step.consumers else ():
                reported[task] = max(reported[task], local + 1)
        for task in sorted(reported, key=_by_name):
            found[task] = max(found.get(task, 0), reported[task])
    return tuple(found), tuple(found.values())


def _by_name(task: str) -> tuple[Any, ...]:
    job, _, index = task.partition(":")
    return (job, int(index)) if index.isdigit() else (job, 0)


# Where the epochs of a run end, if it does not say so itself.


def _epochs_of_steps(run: RunTrace, reference: RunTrace | None) -> dict[int, int] | None:
    """The epoch of each step of a run that does not number all of its epochs, by the reference; None if unknown."""
    if reference is None:
        return None
    steps = [step for step in reference.clients[0].steps if step.examples is not None]
    given = {step.index: step.epoch for step in steps if step.epoch is not None}
    known = given if given and len(given) == len(steps) else _derived_once(reference)
    if known is None:
        return None
    last = max(known.values(), default=1)
    indices = sorted({step.index for client in run.clients for step in client.steps})
    if set(indices) != set(known):  # files of unequal sizes make other steps of the same examples
        own = _derived_epochs(run) or {}
        same = set(own) == set(indices) and set(own.values()) == set(known.values())
        if same and _ids_of(run, own, last) == _ids_of(reference, known, last):
            return own
    return {index: known.get(index, last) for index in indices}


def _ids_of(run: RunTrace, epochs: dict[int, int], epoch: int) -> set[int]:
    """The examples of one of its epochs."""
    return {key for index, batch in _batches(run) if epochs[index] == epoch for key in batch}


def _batches(run: RunTrace) -> list[tuple[int, list[int]]]:
    """The ids of each step that has any, of all clients."""
    found: dict[int, list[int]] = {}
    for client in run.clients:
        for step in client.steps:
            if step.examples is not None:
                found.setdefault(step.index, []).extend(chain.from_iterable(step.examples))
    return sorted(found.items())


_latest: list[tuple[RunTrace, dict[int, int] | None]] = []


def _derived_once(reference: RunTrace) -> dict[int, int] | None:
    """Derived epochs; those of the latest reference are kept, because its own ledger and the run's both need them."""
    if not _latest or _latest[0][0] is not reference:
        _latest[:] = [(reference, _derived_epochs(reference))]
    return _latest[0][1]


def _derived_epochs(run: RunTrace) -> dict[int, int] | None:
    """Epochs from 1, by step, of a run whose steps fall into parts that hold the same examples, each once.

    A new part begins at the first step with an example that the part before it has had. None if the parts differ, as
    they do where a batch holds examples of two epochs or where each epoch drops another tail.
    """
    found: dict[int, int] = {}
    parts: list[set[int]] = [set()]
    for index, batch in _batches(run):
        fresh = set(batch)
        if len(fresh) < len(batch):
            return None
        if not parts[-1].isdisjoint(fresh):
            parts.append(set())
        parts[-1] |= fresh
        found[index] = len(parts)
    return found if all(part == parts[0] for part in parts) else None
