"""Law: every client process reports the same steps, the same observables and, bit for bit, the same reduced values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.evidence.comparing import Comparison, differing_bits, place
from harness.evidence.observed import Moment, items, moments
from harness.evidence.trace import ClientTrace, Final, Step, Value, Variable
from harness.judging.laws._compare import first_per_value
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged

_REDUCED = ("loss", "gradients", "metrics", "predictions")
_RECORDED = (*_REDUCED, "variables", "examples")


class _ClientsAgree(Law):
    id = "clients_agree"
    order = 10
    suffices = False

    def judge(self, case: Case) -> Judgement:
        clients = case.run.clients
        if len(clients) < 2:
            return not_judged(self.id, "there is one client only")
        findings = list(self._numbers_of_steps(clients))
        compared = recorded = 0
        for moment in moments(case.run, aligned_to=case.reference):
            for observable in _RECORDED:
                for name, task, difference in _disagreements(moment, observable):
                    recorded += 1
                    compared += difference is None or difference.elements > 0
                    if difference is not None and difference.ratio > 0:
                        findings.append(
                            (self._finding(moment.step, observable, name, task, difference), difference.ratio)
                        )
        if not compared and not findings:
            return not_judged(self.id, "no client recorded a value that others have to agree on")
        return judged(self.id, compared, first_per_value(findings), recorded=recorded)

    def _numbers_of_steps(self, clients: Sequence[ClientTrace]) -> Iterator[tuple[Finding, float]]:
        counts = [len(client.steps) for client in clients]
        for client, count in zip(clients, counts, strict=True):
            if count != counts[0]:
                text = f"{client.header.task} recorded {count} steps, {clients[0].header.task} recorded {counts[0]}"
                first = min(count, counts[0]) + 1
                finding = Finding(self.id, text, client.header.task, first, "steps", None, None, count, counts[0], 0.0)
                yield finding, 0.0

    def _finding(self, step: int | None, observable: str, name: str, task: str, difference: Comparison) -> Finding:
        where = place(step, observable, None if name == observable else name, difference.index)
        return Finding(
            law=self.id,
            text=f"{where} on {task}: {difference.text}",
            task=task,
            step=step,
            observable=observable,
            variable=None if name == observable else name,
            index=difference.index if difference.observed is not None else None,
            observed=difference.observed,
            expected=difference.expected,
            bound=None if difference.observed is None else 0.0,
        )


def _disagreements(moment: Moment, observable: str) -> Iterator[tuple[str, str, Comparison | None]]:
    """Every value of every further client against the first client that recorded one at this moment.

    A client that recorded something at this moment, but nothing of this observable, leaves the others unchecked: a
    worker that has diverged could keep that to itself.
    """
    found = [
        (task, _items(record, observable))
        for task, record in zip(moment.tasks, moment.records, strict=True)
        if record is not None
    ]
    first_task, first = next(((task, values) for task, values in found if values is not None), ("", {}))
    for task, values in found:
        if values is None and first_task:
            yield observable, task, Comparison(float("inf"), f"recorded by {first_task}, but not by {task}")
        elif values is not None and task != first_task and observable in _REDUCED:
            yield from _between(first_task, first, task, values)


def _items(record: Step | Final, observable: str) -> Mapping[str, Value | Variable] | None:
    """What a client recorded by name; examples have none, and count by being there."""
    if observable == "examples":
        return None if getattr(record, observable, None) is None else {}
    return items(record, observable)


def _between(
    first_task: str, first: Mapping[str, Value | Variable], task: str, values: Mapping[str, Value | Variable]
) -> Iterator[tuple[str, str, Comparison | None]]:
    for name in [*first, *(name for name in values if name not in first)]:
        ours, theirs = values.get(name), first.get(name)
        if ours is None or theirs is None:
            present, absent = (first_task, task) if ours is None else (task, first_task)
            yield name, task, Comparison(float("inf"), f"recorded by {present}, but not by {absent}")
        elif isinstance(ours, Value) and isinstance(theirs, Value):
            if ours.per_replica != theirs.per_replica:
                text = f"one value per replica on one of {first_task} and {task} only"
                yield name, task, Comparison(float("inf"), text)
            elif not ours.per_replica:
                yield name, task, _bits(ours, theirs, first_task)


def _bits(ours: Value, theirs: Value, first_task: str) -> Comparison | None:
    if len(ours.parts) != 1 or len(theirs.parts) != 1:
        return Comparison(float("inf"), "a reduced value must have one part")
    difference = differing_bits(ours.parts[0], theirs.parts[0])
    if difference is None:
        return Comparison(0.0, elements=0) if 0 in ours.parts[0].shape else None
    text = f"{difference.text} ({first_task} is the second)"
    return Comparison(difference.ratio, text, difference.index, difference.observed, difference.expected)


LAW = _ClientsAgree()
