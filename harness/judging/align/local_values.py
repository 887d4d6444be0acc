"""Recognises per-replica values that look like reduced ones, in multi-worker runs with one device per worker.

`strategy.run` returns a PerReplica where a process has several replicas, and a plain tensor where it has one. A program
that reports what `strategy.run` gave it therefore reports a part of the global value under `multi_worker-2`, in the
very place where it reports a PerReplica under `mirrored-2`. Both must be judged alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from harness.evidence.comparing import compare
from harness.evidence.observed import Observed, history, items, moments, summed
from harness.evidence.trace import Array, ClientTrace, RunTrace, Step, Value
from harness.judging.laws import Case
from harness.judging.tolerance import FLOOR, Bound, eps
from harness.subject.strategies import kind_of

_OBSERVABLES = ("loss", "gradients", "metrics")
_Place = tuple[int, str, str]


def with_local_values_marked(case: Case) -> Case:
    """Mark as per-replica each value on which clients differ and whose sum over clients is the reference's value.

    Only that sum is taken as proof: clients that disagree in any other way stay in disagreement, for `clients_agree` to
    report.
    """
    clients = case.run.clients
    kind = kind_of(case.run.header.strategy)
    if len(clients) < 2 or any(client.header.local_replicas != 1 for client in clients):
        return case
    if kind is not None and kind.on_mesh:  # what a client names there is whole
        return case
    places = _parts_of_a_sum(case)
    if not places:
        return case
    run = RunTrace(clients=tuple(_mark(client, places) for client in clients))
    return replace(case, run=run)


def _parts_of_a_sum(case: Case) -> set[_Place]:
    """Where clients differ and add up to the reference; and, of a value for which that is so anywhere, where they are
    equal and do, as the parts of a loss may be that is the same for every example.
    """
    places: set[_Place] = set()
    equal: set[_Place] = set()
    for observable in _OBSERVABLES:
        reference = history(case.reference, observable)
        for moment in moments(case.run):
            expected = reference.get(moment.step)
            recorded = [items(record, observable) or {} for record in moment.records]
            if moment.step is None or expected is None:
                continue
            for name in recorded[0]:
                values = [found.get(name) for found in recorded]
                parts = [value.parts[0] for value in values if isinstance(value, Value) and _plain(value)]
                if name not in expected or len(parts) < len(values):
                    continue
                bound = case.tolerance.bound(observable, name, moment.step) + _rounding(parts)
                if all(part == parts[0] for part in parts):
                    if _equal(summed(parts), expected[name], bound, 1):
                        equal.add((moment.step, observable, name))
                elif any(
                    _equal(summed(parts), expected[name], bound, factor) for factor in (1, len(parts), 1 / len(parts))
                ):
                    places.add((moment.step, observable, name))
    known = {(observable, name) for _, observable, name in places}
    return places | {place for place in equal if place[1:] in known}


def _rounding(parts: Sequence[Array]) -> Bound:
    """What a sum of these may be off by: parts that nearly cancel keep the roundings of their own sizes."""
    import numpy as np

    arrays = [part.numpy() for part in parts]
    if any(array.shape != arrays[0].shape or array.dtype.kind != "f" for array in arrays):
        return np.zeros(())
    sizes: Bound = np.sum([np.abs(array.astype(np.float64)) for array in arrays], axis=0)
    return FLOOR * eps(parts[0].dtype) * sizes


def _equal(total: Observed, expected: Observed, bound: Bound, factor: float) -> bool:
    """Whether the total is the expected value times the factor; a scaled value has a scaled rounding error."""
    if total.problem or expected.problem:
        return False
    scaled = replace(expected, array=expected.array * factor) if factor != 1 else expected
    return compare(total, scaled, bound * factor).ratio <= 1


def _plain(value: Value) -> bool:
    return not value.per_replica and len(value.parts) == 1


def _mark(client: ClientTrace, places: set[_Place]) -> ClientTrace:
    return msgspec.structs.replace(client, steps=tuple(_mark_step(step, places) for step in client.steps))


def _mark_step(step: Step, places: set[_Place]) -> Step:
    def marked(observable: str, value: Value) -> Value:
        if (step.index, observable, value.name) not in places:
            return value
        return msgspec.structs.replace(value, per_replica=True)

    return msgspec.structs.replace(
        step,
        loss=None if step.loss is None else marked("loss", step.loss),
        gradients=None if step.gradients is None else tuple(marked("gradients", value) for value in step.gradients),
        metrics=None if step.metrics is None else tuple(marked("metrics", value) for value in step.metrics),
    )
