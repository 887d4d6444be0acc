"""How a training went, for people to look at: losses of run and reference by step, and what each replica had at one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from harness.evidence.observed import Observed, history
from harness.evidence.trace import ClientTrace, Step, Value
from harness.judging.laws.protocol import Case

__all__ = ["Course", "ReplicaLoss", "course_of"]

_POINTS_MAX = 200
"""Steps of a longer training, evenly apart; the last is always among them."""


@dataclass(frozen=True)
class ReplicaLoss:
    """What one replica had at a step: how many examples, and its own loss, None where that is not known."""

    task: str
    replica: int
    examples: int | None
    loss: float | None


@dataclass(frozen=True)
class Course:
    """Losses that are numbers, at the steps at which run or reference has one; None for one that has none there.

    `step` is the one of the `shares`: the first that differs, or the last one.
    """

    steps: tuple[int, ...]
    observed: tuple[float | None, ...]
    expected: tuple[float | None, ...]
    step: int | None = None
    shares: tuple[ReplicaLoss, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As in `--json`."""
        return asdict(self)


def course_of(case: Case, step: int | None) -> Course | None:
    """The course of a case; None where nothing can be shown.

    Args:
        case: a run and its reference.
        step: at which replicas are compared; None for the last.
    """
    run, reference = (
        history(case.run, "loss", case.reference),
        history(case.reference, "loss"),
    )
    steps = sorted(each for each in {*run, *reference} if each is not None)
    apart = -(-len(steps) // _POINTS_MAX) or 1
    steps = steps[::-apart][::-1]
    observed, expected = (tuple(_number(found, each) for each in steps) for found in (run, reference))
    at = step if step is not None else _last(case)
    shares = () if at is None else tuple(share for client in case.run.clients for share in _shares(client, at))
    if not steps and not any(share.examples is not None or share.loss is not None for share in shares):
        return None
    return Course(tuple(steps), observed, expected, at, shares)


def _number(found: Mapping[int | None, Mapping[str, Observed]], step: int) -> float | None:
    loss = found[step].get("loss") if step in found else None
    if loss is None or loss.problem or loss.array.size != 1 or loss.array.dtype.kind == "c":
        return None
    number = float(loss.array.reshape(-1)[0])
    return number if math.isfinite(number) else None


def _last(case: Case) -> int | None:
    steps = [client.steps[-1].index for client in case.run.clients if client.steps]
    return min(steps, default=None)


def _shares(client: ClientTrace, index: int) -> list[ReplicaLoss]:
    """Of each replica of a client."""
    step = next((each for each in client.steps if each.index == index), None)
    if step is None:
        return []
    examples, losses = step.examples or (step.seen.examples if step.seen else None), _parts(step)
    count = client.header.local_replicas
    return [
        ReplicaLoss(
            client.header.task,
            replica,
            len(examples[replica]) if examples is not None and len(examples) == count else None,
            losses[replica] if len(losses) == count else None,
        )
        for replica in range(count)
    ]


def _parts(step: Step) -> list[float | None]:
    """The loss that each replica reports, or else the one that it asks a tape about."""
    seen: tuple[Value, ...] = step.seen.losses if step.seen else ()
    value = step.loss if step.loss is not None and step.loss.per_replica else next(iter(seen), None)
    if value is None:
        return []
    found = []
    for part in value.parts:
        array = part.numpy()
        number = float(array.reshape(-1)[0]) if array.size == 1 and array.dtype.kind != "c" else math.nan
        found.append(number if math.isfinite(number) else None)
    return found
