"""Law: all copies of a mirrored variable, or of a tensor on a mesh, are bit-identical after each step.

Of an on-read variable, whose copies may differ, the aggregates of all clients are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.evidence.comparing import Comparison, differing_bits, place
from harness.evidence.observed import OBSERVABLES, Moment, items, moments
from harness.evidence.trace import Array, Final, Step, Value, Variable
from harness.judging.laws._compare import first_per_value
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged


@dataclass(frozen=True)
class _Copy:
    """One copy of a variable or tensor and where it lives."""

    task: str
    replica: int | None
    array: Array

    def __str__(self) -> str:
        return self.task if self.replica is None else f"{self.task} replica {self.replica}"


class _ReplicasAgree(Law):
    id = "replicas_agree"
    order = 20
    suffices = False

    def judge(self, case: Case) -> Judgement:
        findings: list[tuple[Finding, float]] = []
        compared = recorded = 0
        for moment in moments(case.run, aligned_to=case.reference):
            for observable, name, first, other, difference in _pairs(moment):
                recorded += 1
                if (other is None or 0 in first.array.shape) and difference is None:
                    continue
                compared += 1
                if difference is not None:
                    found = self._finding(moment.step, observable, name, first, other, difference)
                    findings.append((found, difference.ratio))
        if not recorded:
            return not_judged(self.id, "no variables were recorded")
        if not compared:
            return not_judged(self.id, "every variable has one copy only")
        return judged(self.id, compared, first_per_value(findings), recorded=recorded)

    def _finding(
        self, step: int | None, observable: str, name: str, first: _Copy, other: _Copy | None, difference: Comparison
    ) -> Finding:
        numeric = difference.observed is not None and other is not None
        where = f" on {other}, compared with {first}" if other is not None else ""
        return Finding(
            law=self.id,
            text=f"{place(step, observable, name, difference.index)}{where}: {difference.text}",
            task=(other or first).task,
            step=step,
            observable=observable,
            variable=name,
            index=difference.index if numeric else None,
            observed=difference.observed,
            expected=difference.expected,
            bound=0.0 if numeric else None,
        )


_Pair = tuple[str, str, _Copy, _Copy | None, Comparison | None]


def _pairs(moment: Moment) -> Iterator[_Pair]:
    """Each variable's first copy with every other one; alone (None) when there is no other. So with other values."""
    by_task = [
        (task, found)
        for task, record in zip(moment.tasks, moment.records, strict=True)
        if (found := items(record, "variables")) is not None
    ]
    names = list(dict.fromkeys(name for _, found in by_task for name in found))
    for name in names:
        copies = [copy for task, found in by_task if name in found for copy in _copies(task, found[name])]
        if not copies:
            continue
        absent = _absent(name, by_task)
        if absent is not None or len(copies) == 1:
            yield "variables", name, copies[0], None, absent
        for other in copies[1:]:
            yield "variables", name, copies[0], other, differing_bits(other.array, copies[0].array)
    for task, record in zip(moment.tasks, moment.records, strict=True):
        yield from _of_values(task, record)


def _of_values(task: str, record: Step | Final | None) -> Iterator[_Pair]:
    """What the copies of a reduced value are that differ from the first, of a client that has several of one."""
    for observable in OBSERVABLES:
        values = (items(record, observable) or {}).items()
        for name, value in ((name, value) for name, value in values if isinstance(value, Value)):
            for other in value.others:
                first = _Copy(task, None, value.parts[0])
                difference = differing_bits(other, value.parts[0])
                yield observable, name, first, _Copy(f"another device of {task}", None, other), difference


def _absent(name: str, by_task: Sequence[tuple[str, Mapping[str, object]]]) -> Comparison | None:
    absent = [task for task, found in by_task if name not in found]
    return Comparison(float("inf"), f"not recorded by {', '.join(absent)}") if absent else None


def _copies(task: str, variable: object) -> list[_Copy]:
    """The arrays of one client that must equal all others: the aggregate of an on-read variable, else every copy.

    A plain variable counts too: recorded by several clients, it is compared with the reference on the first client
    only, so the others must equal that one.
    """
    if not isinstance(variable, Variable):
        return []
    if variable.kind == "on_read":
        return [_Copy(task, None, variable.aggregated)] if variable.aggregated is not None else []
    return [_Copy(task, replica, array) for replica, array in enumerate(variable.copies)]


LAW = _ReplicasAgree()
