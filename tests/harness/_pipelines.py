"""Synthetic runs whose input pipelines are written out in Python, with and without mistakes."""

from __future__ import annotations

from collections.abc import Sequence

from harness.evidence.trace import ClientTrace, RunTrace, Step
from harness.judging.laws import Case
from harness.judging.tolerance import ExactTolerance
from tests.harness._traces import client, step

Shards = Sequence[Sequence[int]]
"""The batches of one replica, one for each step."""


def batched(ids: Sequence[int], size: int) -> list[list[int]]:
    """Consecutive batches; the last one may be smaller."""
    return [list(ids[k : k + size]) for k in range(0, len(ids), size)]


def sliced(ids: Sequence[int], batch: int, replicas: int) -> list[list[list[int]]]:
    """For each replica its slice of each global batch, as TensorFlow cuts it: 4 for 3 replicas are 2, 2 and 0."""
    slices: list[list[list[int]]] = [[] for _ in range(replicas)]
    for whole in batched(ids, batch):
        size = -(-len(whole) // replicas)
        for replica in range(replicas):
            slices[replica].append(whole[replica * size : (replica + 1) * size])
    return slices


def run_of(replicas: Sequence[Shards], local: int = 1) -> RunTrace:
    """A run in which worker k has the replicas k * local and following; who runs out early gets empty batches."""
    workers, steps = len(replicas) // local, max(map(len, replicas))
    return RunTrace(tuple(_worker(k, replicas, local, workers, steps) for k in range(workers)))


def _worker(number: int, replicas: Sequence[Shards], local: int, workers: int, steps: int) -> ClientTrace:
    own = replicas[number * local : (number + 1) * local]
    found: list[Step] = []
    for index in range(steps):
        shards = tuple(tuple(shard[index]) if index < len(shard) else () for shard in own)
        found.append(step(index + 1, examples=shards))
    return client(*found, task=f"worker:{number}", clients=workers, replicas=len(replicas))


def with_epochs(run: RunTrace, ends: Sequence[int]) -> RunTrace:
    """The run with the number of its epoch on each step; `ends` are the last steps of the epochs."""
    import msgspec

    clients = []
    for one in run.clients:
        steps = [msgspec.structs.replace(s, epoch=1 + sum(end < s.index for end in ends[:-1])) for s in one.steps]
        clients.append(msgspec.structs.replace(one, steps=tuple(steps)))
    return RunTrace(tuple(clients))


def reference_of(epochs: Sequence[Sequence[int]], batch: int) -> RunTrace:
    """One device that reads each epoch in batches of the global size, the last one of an epoch perhaps smaller."""
    batches = [one for epoch in epochs for one in batched(epoch, batch)]
    return RunTrace((client(*(step(k, examples=(tuple(one),)) for k, one in enumerate(batches, start=1))),))


def case_of(run: RunTrace, epochs: Sequence[Sequence[int]], batch: int) -> Case:
    """The run next to its reference, in the exact tier."""
    return Case(run, reference_of(epochs, batch), ExactTolerance())
