"""A case as rules read it: with the losses and gradients of each replica that the harness saw and nobody reported.

Laws do not read them, because a program may rightly average what another one adds up. Rules take the parts of a value
as terms of a sum. So where the replicas' gradients were averaged, each counts as its share of the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from harness.evidence.trace import Array, ClientTrace, RunTrace, Seen, Step, Value
from harness.judging.explain._view import CaseView
from harness.judging.laws.protocol import Case
from harness.judging.tolerance import DerivedTolerance, Tolerance

if TYPE_CHECKING:
    import numpy as np


_CLOSE = 1e-3
"""A sum and a mean are as far from each other as the number of replicas; what was reduced in float16 is as close to one
of them as this.
"""


def readings(case: Case) -> tuple[Case, ...]:
    """The case with what was seen of each replica, as if it had been reported, unless the program reports it itself.

    Where losses of replicas stand in for those that `fit` logged there is a second reading with the latter: they may be
    wrong although those are right. Those of the latest case are kept.
    """
    if not _latest or _latest[0][0] is not case:
        _latest[:] = [(case, _readings(case))]
    return _latest[0][1]


_latest: list[tuple[Case, tuple[Case, ...]]] = []


def _readings(case: Case) -> tuple[Case, ...]:
    first, second = _told(case, losses=True), _told(case, losses=False)
    logged = any(step.loss is not None for client in second.run.clients for step in client.steps)
    return (first, second) if logged and first is not second else (first,)


def _told(case: Case, *, losses: bool) -> Case:
    steps = [step for trace in (case.run, case.reference) for client in trace.clients for step in client.steps]
    gradients = all(step.gradients is None for step in steps)
    loss = losses and all(
        step.loss is None or (step.seen is not None and step.loss is step.seen.loss) for step in steps
    )
    if not (gradients or loss) or not any(step.seen is not None and step.seen.losses for step in steps):
        return case
    share = 1.0 / case.run.header.replicas if _averaged(case) else 1.0

    def filled(trace: RunTrace, share: float = 1.0) -> RunTrace:
        return RunTrace(tuple(_filled(client, loss, gradients, share) for client in trace.clients))

    return replace(
        case,
        run=filled(case.run, share),
        reference=filled(case.reference),
        tolerance=_over(case.tolerance, filled),
        share=share if loss else None,
        told=frozenset([*["loss"] * loss, *["gradients"] * gradients]),
    )


def _over(tolerance: Tolerance, filled: Any) -> Tolerance:
    if not isinstance(tolerance, DerivedTolerance):
        return tolerance
    return DerivedTolerance(filled(tolerance.reference), tuple(map(filled, tolerance.perturbed)), tolerance.run)


def _filled(client: ClientTrace, loss: bool, gradients: bool, share: float) -> ClientTrace:
    return msgspec.structs.replace(
        client, steps=tuple(_filled_step(step, loss, gradients, share) for step in client.steps)
    )


def _filled_step(step: Step, loss: bool, gradients: bool, share: float) -> Step:
    if (seen := step.seen) is None:
        return step
    if loss and len(seen.losses) == 1:
        step = msgspec.structs.replace(step, loss=_scaled(seen.losses[0], share))
    if gradients and seen.gradients:
        step = msgspec.structs.replace(step, gradients=tuple(_scaled(each, share) for each in seen.gradients))
    return step


def _scaled(value: Value, share: float) -> Value:
    if share == 1.0:
        return value
    parts = tuple(Array.of((part.numpy() * share).astype(part.numpy().dtype)) for part in value.parts)
    return msgspec.structs.replace(value, parts=parts)


def _averaged(case: Case) -> bool:
    """Whether replicas were averaged: the mean left the reduction, or the sum is too large and the result right.

    Of gradients that were changed before their reduction it is known by which operation they were reduced.
    """
    count = case.run.header.replicas
    if count < 2:
        return False
    for number in range(min(len(client.steps) for client in case.run.clients)):
        seen = [client.steps[number].seen for client in case.run.clients]
        known = [each for each in seen if each is not None and each.gradients]
        if len(known) == len(seen):
            reduced = list(_reduced_by(known, count))
            if reduced:
                return all(each == count for each in reduced)
            return _by_means(known[0]) or _right_nevertheless(case, known, count)
    return False


def _reduced_by(seen: list[Seen], count: int) -> Iterator[int]:
    """By what the sum of the replicas' gradients had been divided when it left the reduction: 1 or their number."""
    for gradient in seen[0].gradients:
        parts = [
            part.numpy()
            for each in seen
            for value in each.gradients
            if value.name == gradient.name
            for part in value.parts
        ]
        if len({part.shape for part in parts}) > 1 or len(parts) < count:
            continue
        total = _sum(parts)
        for value in seen[0].reduced:
            if value.parts[0].shape == parts[0].shape:
                found = value.parts[0].numpy().astype("float64")
                yield from (divisor for divisor in (1, count) if _near(found, total / divisor))


def _by_means(seen: Seen) -> bool:
    """Whether all that was reduced and is as large as a gradient was averaged."""
    shapes = {value.parts[0].shape for value in seen.gradients}
    found = [value.name for value in seen.reduced if value.parts[0].shape in shapes]
    return bool(found) and set(found) == {"MEAN"}


def _right_nevertheless(case: Case, seen: list[Seen], count: int) -> bool:
    """Whether the losses add up to a multiple of the reference's at the first step, after which variables are right."""
    view = CaseView(case)
    steps = view.steps("variables")
    truth = case.reference.clients[0].steps[:1]
    if not steps or not truth or truth[0].index != steps[0] or truth[0].seen is None or not truth[0].seen.losses:
        return False
    losses = [part.numpy() for each in seen for value in each.losses for part in value.parts]
    expected = truth[0].seen.losses[0].parts[0].numpy()
    if not _near(_sum(losses), count * expected.astype("float64")):
        return False
    return not view.wrong("variables", steps[0]) and not view.drifted(steps[0])


def _sum(parts: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.asarray(np.sum([part.astype("float64") for part in parts], axis=0))


def _near(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    import numpy as np

    size = float(np.max(np.abs(other), initial=0.0))
    return size > 0 and bool(np.max(np.abs(one - other), initial=0.0) <= _CLOSE * size)
