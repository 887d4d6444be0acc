"""How a training went, for people to look at: losses and errors by step, and what each replica had at one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.evidence.observed import Observed, history
from harness.evidence.trace import ClientTrace, Step, Value
from harness.judging.laws.protocol import Case, Judgement

_POINTS_MAX = 200
"""Steps of a longer training, evenly apart; the last is always among them."""
_SPANS_MAX = 60
_ROWS_MAX = 16


@dataclass(frozen=True)
class ReplicaLoss:
    """What one replica had at a step: how many examples, and its own loss, None where that is not known."""

    task: str
    replica: int
    examples: int | None
    loss: float | None


@dataclass(frozen=True)
class Errors:
    """How much of its bound the error of each value has, at its worst in each of some spans of steps.

    `spans` are the first and the last step of each, `ratios` by the value's name its errors in bounds: more than 1 is
    too much, None says that there is nothing to compare.
    """

    spans: tuple[tuple[int, int], ...]
    ratios: dict[str, tuple[float | None, ...]]


@dataclass(frozen=True)
class Course:
    """Losses that are numbers, at the steps at which run or reference has one; None for one that has none there.

    `step` is the one of the `shares`: the first that differs, or the last one. `errors` is None where no error of a
    step has a bound.
    """

    steps: tuple[int, ...]
    observed: tuple[float | None, ...]
    expected: tuple[float | None, ...]
    step: int | None = None
    shares: tuple[ReplicaLoss, ...] = ()
    errors: Errors | None = None

    def to_json(self) -> dict[str, Any]:
        """As in `--json`."""
        return asdict(self)


def course_of(case: Case, step: int | None, judgements: Sequence[Judgement] = ()) -> Course | None:
    """The course of a case; None where nothing can be shown.

    Args:
        case: a run and its reference.
        step: at which replicas are compared; None for the last.
        judgements: what the laws say of it.
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
    errors = _errors({law.law: law.ratios for law in judgements if law.ratios})
    known = any(share.examples is not None or share.loss is not None for share in shares)
    if not steps and errors is None and not known:
        return None
    return Course(tuple(steps), observed, expected, at, shares, errors)


def _errors(by_law: Mapping[str, Mapping[tuple[int | None, str], float]]) -> Errors | None:
    """Of the values that come nearest to their bounds."""
    steps = sorted({step for ratios in by_law.values() for step, _ in ratios if step is not None})
    if not steps:
        return None
    apart = -(-len(steps) // _SPANS_MAX)
    spans = [steps[first : first + apart] for first in range(0, len(steps), apart)]
    number = {step: count // apart for count, step in enumerate(steps)}
    rows: dict[str, list[float | None]] = {}
    for law, ratios in by_law.items():
        for (step, name), ratio in ratios.items():
            if step is not None:
                observable = law.partition("_match")[0]
                row = rows.setdefault(name if observable == name else f"{observable} {name}", [None] * len(spans))
                row[number[step]] = max(ratio, row[number[step]] or 0.0)
    worst = sorted(rows, key=lambda name: -max(each or 0.0 for each in rows[name]))[:_ROWS_MAX]
    return Errors(tuple((span[0], span[-1]) for span in spans), {name: tuple(rows[name]) for name in worst})


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
