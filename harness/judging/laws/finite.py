"""Law: nothing is NaN or Inf, in any replica's copy or part, where the reference is finite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.evidence.comparing import finite_elements, number, place, show
from harness.evidence.observed import OBSERVABLES, Moment, Observed, history, is_integer, items, moments
from harness.evidence.trace import Array, Value, Variable
from harness.judging.laws._compare import first_per_value
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged


@dataclass(frozen=True)
class _Reported:
    """One array as one client reported it; `where` names the client and the replica."""

    observable: str
    name: str
    task: str
    where: str
    array: Array


class _Finite(Law):
    id = "finite"
    order = 100
    suffices = False

    def judge(self, case: Case) -> Judgement:
        reference = {observable: history(case.reference, observable) for observable in OBSERVABLES}
        findings: list[tuple[Finding, float]] = []
        compared = recorded = 0
        for moment in moments(case.run, aligned_to=case.reference):
            for reported in _reported(moment):
                truth = reference[reported.observable].get(moment.step, {}).get(reported.name)
                if truth is None or is_integer(reported.array.dtype):
                    continue
                recorded += 1
                if not finite_elements(truth.array).any() or 0 in reported.array.shape:
                    continue
                compared += 1
                finding = self._check(moment.step, reported, truth)
                if finding is not None:
                    findings.append((finding, 0.0))
        if not compared:
            return not_judged(self.id, "no floating value was recorded by both the run and a reference that is finite")
        return judged(self.id, compared, first_per_value(findings), recorded=recorded)

    def _check(self, step: int | None, reported: _Reported, truth: Observed) -> Finding | None:
        import numpy as np

        values = reported.array.numpy()
        finite = finite_elements(truth.array)
        same_shape = values.shape == truth.array.shape
        if not same_shape:  # one replica's rows, or a wrong shape: judge it against the reference as a whole
            finite = np.broadcast_to(np.all(finite), values.shape)
        wrong = finite & ~np.isfinite(values)
        if not wrong.any():
            return None
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
        more = f" ({int(wrong.sum())} of {wrong.size} elements)" if wrong.size > 1 else ""
        where = f"{place(step, reported.observable, reported.name, index)} on {reported.where}"
        return Finding(
            law=self.id,
            text=f"{where}: {show(values[index])} where the reference is finite{more}",
            task=reported.task,
            step=step,
            observable=reported.observable,
            variable=None if reported.observable == "loss" else reported.name,
            index=index,
            observed=number(values[index]),
            expected=number(truth.array[index]) if same_shape else None,
        )


def _reported(moment: Moment) -> Iterator[_Reported]:
    """Everything every client recorded at one moment, each replica's copy or part by itself."""
    for task, record in zip(moment.tasks, moment.records, strict=True):
        for observable in OBSERVABLES:
            for name, item in (items(record, observable) or {}).items():
                arrays = item.parts if isinstance(item, Value) else item.copies
                several = item.per_replica if isinstance(item, Value) else len(arrays) > 1
                for replica, array in enumerate(arrays):
                    where = f"{task} replica {replica}" if several else task
                    yield _Reported(observable, name, task, where, array)
                if isinstance(item, Variable) and item.aggregated is not None:
                    yield _Reported(observable, name, task, f"{task}, aggregated", item.aggregated)


LAW = _Finite()
