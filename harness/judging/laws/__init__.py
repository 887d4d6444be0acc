"""The laws a run must obey, one per file; a new file with a `LAW` is a new law."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from _lockstep.kinds import kinds_of
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, Status

__all__ = ["Case", "Finding", "Judgement", "Law", "Status", "all_laws", "judge_all"]


@cache
def all_laws() -> tuple[Law, ...]:
    """Every law of this package, in the order of reports."""
    laws: list[Law] = [module.LAW for module in kinds_of(__name__)]
    return tuple(sorted(laws, key=lambda law: (law.order, law.id)))


def judge_all(case: Case) -> tuple[Judgement, ...]:
    """What every law says of one run that it concerns."""
    return tuple(replace(law.judge(case), suffices=law.suffices_for(case)) for law in all_laws() if law.concerns(case))
