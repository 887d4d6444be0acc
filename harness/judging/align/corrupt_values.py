"""The numbers that faults have changed, placed among the steps of a case."""

from __future__ import annotations

from collections.abc import Iterable

from harness.evidence.corrupt_values import CorruptValue
from harness.evidence.observed import moments
from harness.judging.laws.protocol import Case, StruckAt

__all__ = ["corrupt_values_of_case", "restored"]


def corrupt_values_of_case(case: Case, struck: Iterable[CorruptValue]) -> tuple[StruckAt, ...]:
    """The numbers changed in the processes of a case, among its steps."""
    steps = [moment.step for moment in moments(case.run, aligned_to=case.reference) if moment.step is not None]
    begin = steps[0] - 1 if steps else case.begin
    return tuple(
        StruckAt(each, steps[each.done - 1] if 0 < each.done <= len(steps) else begin + each.done) for each in struck
    )


def restored(case: Case, strikes: Iterable[StruckAt]) -> tuple[StruckAt, ...]:
    """Of what was changed in earlier processes, that which can have been in the state that a case began with.

    Where that is older than the change, or nothing was restored, the change is lost.
    """
    begin = case.begin
    return tuple(each for each in strikes if 0 < begin >= each.after + (each.struck.target != "variable"))
