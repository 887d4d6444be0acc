"""Synthetic runs for tests of laws and rules: a small data-parallel training in NumPy, a switch per mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from harness.evidence.counters import Counters
from harness.evidence.trace import Array, ClientTrace, Final, Header, RunTrace, Step, Value, Variable, merge
from harness.judging.laws.protocol import Case
from harness.judging.tolerance import DerivedTolerance, ExactTolerance

F64 = np.ndarray[Any, Any]


def values(found: Mapping[str, Any] | None) -> tuple[Value, ...] | None:
    """Reduced values, or per-replica ones where a list is given."""
    if found is None:
        return None
    return tuple(
        Value(name, tuple(map(Array.of, value)), per_replica=True)
        if isinstance(value, list)
        else Value(name, (Array.of(value),))
        for name, value in found.items()
    )


def variable(name: str, value: Any, kind: str = "plain", aggregated: Any = None) -> Variable:
    """A variable with one copy, or with the copies of a list."""
    copies = value if isinstance(value, list) else [value]
    total = None if aggregated is None else Array.of(aggregated)
    return Variable(name, tuple(map(Array.of, copies)), kind, total)


def step(index: int, *, loss: Any = None, variables: Mapping[str, Any] | None = None, **rest: Any) -> Step:
    """One step; `loss` and the entries of `variables`, `gradients` and `metrics` are arrays, or lists for replicas."""
    changes = dict(rest)
    for field in ("gradients", "metrics"):
        changes[field] = values(changes.get(field))
    if loss is not None:
        changes["loss"] = (values({"loss": loss}) or ())[0]
    if variables is not None:
        changes["variables"] = tuple(
            value
            if isinstance(value, Variable)
            else variable(name, value, "mirrored" if isinstance(value, list) else "plain")
            for name, value in variables.items()
        )
    return Step(index=index, at=float(index), **changes)


def client(
    *steps: Step,
    task: str = "worker:0",
    clients: int = 1,
    replicas: int = 1,
    final: Final | None = None,
    **counters: Any,
) -> ClientTrace:
    """One client's trace."""
    header = Header(task, 0, "synthetic", replicas, max(1, replicas // clients), clients, seed=0)
    return ClientTrace(header, steps, final, Counters(**counters))


@dataclass(frozen=True)
class Training:
    """Gradient descent on least squares or, `quadratic` off, on a linear loss whose every value is exact.

    Each step splits `batch` consecutive examples over all replicas, sums per-example losses and gradients per replica,
    divides by the global batch and sums over replicas. The remaining fields are mistakes, or noise for a derived bound.
    """

    clients: int = 1
    local_replicas: int = 1
    steps: int = 4
    batch: int = 64
    quadratic: bool = False
    dtype: str = "float32"
    per_replica_loss: bool = False
    noise: int | None = None
    loss_factor: float = 1.0
    gradient_factor: float = 1.0
    dropped: tuple[int, ...] = ()
    read_everything: bool = False
    skipped_update: tuple[int, int] | None = None  # (step, replica)

    @property
    def replicas(self) -> int:
        return self.clients * self.local_replicas

    def run(self) -> RunTrace:
        rng = np.random.default_rng(1)
        features = 3 if not self.quadratic else 8
        total = self.batch * self.steps
        data = rng.integers(-4, 5, size=(total, features)).astype(self.dtype)
        if self.quadratic:
            data = rng.standard_normal((total, features)).astype(self.dtype)
        labels = data.sum(axis=1) + 0.5
        copies = [self._noisy(np.ones(features, self.dtype), 0) for _ in range(self.replicas)]
        recorded: list[list[Step]] = [[] for _ in range(self.clients)]
        for index in range(1, self.steps + 1):
            self._step(index, data, labels, copies, recorded)
        predictions = (data[:5] @ copies[0]).astype(self.dtype)
        return merge([self._client(number, steps, copies, predictions) for number, steps in enumerate(recorded)])

    def _noisy(self, array: F64, salt: int) -> F64:
        if self.noise is None:
            return array
        rng = np.random.default_rng([self.noise, salt])
        eps = float(np.finfo(array.dtype).eps) * float(np.abs(array).max())
        return (array + eps * rng.standard_normal(array.shape)).astype(array.dtype)

    def _step(self, index: int, data: F64, labels: F64, copies: list[F64], recorded: list[list[Step]]) -> None:
        ids = [i for i in range((index - 1) * self.batch, index * self.batch) if i not in self.dropped]
        shards = [ids if self.read_everything else part.tolist() for part in np.array_split(ids, self.replicas)]
        parts = [self._local(data[shard], labels[shard], copies[0]) for shard in shards]
        losses = [(np.asarray(loss) * np.asarray(self.loss_factor, self.dtype)).astype(self.dtype) for loss, _ in parts]
        gradient = sum((g for _, g in parts), np.zeros_like(copies[0])) * np.asarray(self.gradient_factor, self.dtype)
        for replica in range(self.replicas):
            if (index, replica) != self.skipped_update:
                updated = copies[replica] - np.asarray(0.125, self.dtype) * gradient
                copies[replica] = self._noisy(updated, index)
        for number, steps in enumerate(recorded):
            local = slice(number * self.local_replicas, (number + 1) * self.local_replicas)
            steps.append(
                step(
                    index,
                    loss=losses[local] if self.per_replica_loss else sum(losses, np.zeros((), self.dtype)),
                    gradients={"w": gradient},
                    variables={"w": list(copies[local]), "iteration": np.int64(index)},
                    metrics={"seen": np.int64(index * self.batch)},
                    examples=tuple(tuple(shard) for shard in shards[local]),
                    epoch=(index + 1) // 2,
                    epoch_end=index % 2 == 0,
                )
            )

    def _local(self, data: F64, labels: F64, weights: F64) -> tuple[F64, F64]:
        batch = np.asarray(self.batch, self.dtype)
        if not self.quadratic:
            return (data @ weights).sum() / batch, data.sum(axis=0) / batch
        error = data @ weights - labels
        return (error * error).sum() / batch, 2 * (data.T @ error) / batch

    def _client(self, number: int, steps: Sequence[Step], copies: list[F64], predictions: F64) -> ClientTrace:
        local = copies[number * self.local_replicas : (number + 1) * self.local_replicas]
        final = Final(99.0, (variable("w", local, "mirrored"),), values({"y": predictions}), None)
        return client(*steps, task=f"worker:{number}", clients=self.clients, replicas=self.replicas, final=final)


def exact_case(**mistakes: Any) -> Case:
    """Two clients of two replicas each (unless said otherwise) against the reference, exact tier."""
    training = Training(**{"clients": 2, "local_replicas": 2, **mistakes})
    return Case(training.run(), Training(steps=4).run(), ExactTolerance())


def derived_case(reference: Training | None = None, **mistakes: Any) -> Case:
    """The same for a quadratic loss in float32, whose sums round differently, with a bound from three noisy reruns."""
    base = reference or Training(quadratic=True, steps=6)
    noisy = [replace(base, noise=seed).run() for seed in (1, 2, 3)]
    truth = base.run()
    training = replace(base, **{"clients": 2, "local_replicas": 2, **mistakes})
    return Case(training.run(), truth, DerivedTolerance(truth, noisy))


def edit(run: RunTrace, number: int, index: int | None, **changes: Any) -> RunTrace:
    """The run with fields of one client's step (by index), or of its final record (None), replaced."""
    clients = list(run.clients)
    found = clients[number]
    if index is None:
        assert found.final is not None
        found = msgspec.structs.replace(found, final=msgspec.structs.replace(found.final, **changes))
    else:
        steps = tuple(msgspec.structs.replace(step, **changes) if step.index == index else step for step in found.steps)
        found = msgspec.structs.replace(found, steps=steps)
    clients[number] = found
    return RunTrace(tuple(clients))
