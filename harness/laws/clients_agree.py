"""Law: every client process reports the same steps and, bit for bit, the same reduced values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.laws._compare import Difference, differing_bits, first_per_value, place
from harness.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged
from harness.observed import Moment, items, moments
from harness.trace import Value

__all__ = ["LAW"]

_REDUCED = ("loss", "gradients", "metrics", "predictions")


@dataclass(frozen=True)
class _ClientsAgree:
    id: str = "clients_agree"
    order: int = 10

    def judge(self, case: Case) -> Judgement:
        clients = case.run.clients
        if len(clients) < 2:
            return not_judged(self.id, "there is one client only")
        findings: list[tuple[Finding, float]] = []
        compared = len(clients) - 1
        counts = [len(client.steps) for client in clients]
        for client, count in zip(clients, counts, strict=True):
            if count != counts[0]:
                text = f"{client.header.task} recorded {count} steps, {clients[0].header.task} recorded {counts[0]}"
                first = min(count, counts[0]) + 1
                finding = Finding(self.id, text, client.header.task, first, "steps", None, None, count, counts[0], 0.0)
                findings.append((finding, 0.0))
        reporters = {name: _reporters(case, name) for name in _REDUCED}
        for moment in moments(case.run, aligned_to=case.reference):
            for observable in _REDUCED:
                for name, task, difference in _disagreements(moment, observable, reporters[observable]):
                    compared += 1
                    if difference is not None:
                        findings.append(
                            (self._finding(moment.step, observable, name, task, difference), difference.ratio)
                        )
        return judged(self.id, compared, first_per_value(findings))

    def _finding(self, step: int | None, observable: str, name: str, task: str, difference: Difference) -> Finding:
        return Finding(
            law=self.id,
            text=f"{place(step, observable, name, difference.index)} on {task}: {difference.text}",
            task=task,
            step=step,
            observable=observable,
            variable=None if observable == "loss" else name,
            index=difference.index if difference.observed is not None else None,
            observed=difference.observed,
            expected=difference.expected,
            bound=None if difference.observed is None else 0.0,
        )


def _reporters(case: Case, observable: str) -> frozenset[str]:
    """The clients that recorded this observable at all; a program may leave, say, predictions to the chief."""
    return frozenset(
        client.header.task
        for client in case.run.clients
        if any(items(record, observable) is not None for record in (*client.steps, client.final))
    )


def _disagreements(
    moment: Moment, observable: str, reporters: frozenset[str]
) -> Iterator[tuple[str, str, Difference | None]]:
    """Every value of every further client against the first client that recorded one at this moment."""
    found = [
        (task, items(record, observable) or {})
        for task, record in zip(moment.tasks, moment.records, strict=True)
        if task in reporters and record is not None
    ]
    if not found:
        return
    first_task, first = found[0]
    for task, values in found[1:]:
        for name in [*first, *(name for name in values if name not in first)]:
            ours, theirs = values.get(name), first.get(name)
            if ours is None or theirs is None:
                present, absent = (first_task, task) if ours is None else (task, first_task)
                yield name, task, Difference(float("inf"), f"recorded by {present}, but not by {absent}")
            elif isinstance(ours, Value) and isinstance(theirs, Value) and ours.per_replica != theirs.per_replica:
                yield (
                    name,
                    task,
                    Difference(float("inf"), f"one value per replica on one of {first_task} and {task} only"),
                )
            elif isinstance(ours, Value) and isinstance(theirs, Value) and not ours.per_replica:
                yield name, task, _bits(ours, theirs, first_task)


def _bits(ours: Value, theirs: Value, first_task: str) -> Difference | None:
    if len(ours.parts) != 1 or len(theirs.parts) != 1:
        return Difference(float("inf"), "a reduced value must have one part")
    difference = differing_bits(ours.parts[0], theirs.parts[0])
    if difference is None:
        return None
    text = f"{difference.text} ({first_task} is the second)"
    return Difference(difference.ratio, text, difference.index, difference.observed, difference.expected)


LAW: Law = _ClientsAgree()
