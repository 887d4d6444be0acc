"""What the laws say of a run: of each of its cases, and of all together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.evidence.parts import Parts
from harness.evidence.reference import Reference
from harness.judging.align import aligned_cases
from harness.judging.conditions import Condition, conditions_of
from harness.judging.laws import Case, judge_all
from harness.judging.laws.protocol import Judgement
from harness.judging.resolution import joined


@dataclass(frozen=True)
class JudgedRun:
    """What the laws say of a run.

    Attributes:
        judgements: one of each law, broken where it is broken in any part.
        conditions: what is taken as given, in any part.
        case: what explanations are looked for in: the first part that is wrong, else the last.
        last: the case of the last part; its `interruption` holds the parts before.
    """

    judgements: tuple[Judgement, ...]
    conditions: tuple[Condition, ...]
    case: Case
    last: Case


def judge_parts(parts: Parts, reference: Reference) -> JudgedRun:
    """What the laws say of every part.

    A run that began again at step 1 is no finding if nothing had been saved, unless it was to show that it resumes.
    """
    cases = list(aligned_cases(parts, reference))
    for number, other in reference.earlier.items():
        if number < len(cases) - 1:
            cases[number] = aligned_cases(parts, other)[number]
    found, conditions = zip(*map(_judged, cases), strict=True)
    wrong = [case for case, judgements in zip(cases, found, strict=True) if _broken(judgements)]
    given = tuple(dict.fromkeys(itertools.chain.from_iterable(conditions)))
    return JudgedRun(_joined(found), given, wrong[0] if wrong else cases[-1], cases[-1])


def _judged(case: Case) -> tuple[tuple[Judgement, ...], tuple[Condition, ...]]:
    """What the laws say of a part, and what is taken as given there, which breaks none of them."""
    judgements = tuple(_placed(judgement, case.where) for judgement in judge_all(case))
    return conditions_of(case, judgements) if case.follows else (judgements, ())


def _broken(judgements: Sequence[Judgement]) -> bool:
    return any(judgement.status == "broken" for judgement in judgements)


def _placed(judgement: Judgement, where: str) -> Judgement:
    """The judgement with the part in each text."""
    if not where:
        return judgement
    findings = (replace(finding, text=f"{where}, {finding.text}") for finding in judgement.findings)
    return replace(judgement, findings=tuple(findings))


def _joined(parts: Sequence[Sequence[Judgement]]) -> tuple[Judgement, ...]:
    """One judgement of each law of the last part: broken where it is broken in any part, else what it is in the last.

    So a law that held before and has nothing to judge in the last part is not judged.
    """
    *earlier, last = parts
    by_law = [{judgement.law: judgement for judgement in part} for part in earlier]
    return tuple(
        _joined_law(before, law) if (before := [part[law.law] for part in by_law if law.law in part]) else law
        for law in last
    )


def _joined_law(before: Sequence[Judgement], last: Judgement) -> Judgement:
    every = [*before, last]
    judged = [judgement for judgement in every if judgement.status != "not_judged"]
    if not judged:
        return last
    broken = _broken(judged)
    shows_little = next((each for each in before if each.status == "not_judged" and each.compared), None)
    if shows_little is not None and not broken:
        return replace(shows_little, reason=f"before the interruption, {shows_little.reason}")
    if last.status == "not_judged" and not broken:
        held = sum(judgement.compared for judgement in judged)
        return replace(last, reason=f"held until the interruption; in the resumed run: {last.reason}", compared=held)
    return Judgement(
        law=last.law,
        status="broken" if broken else "held",
        findings=tuple(finding for judgement in judged for finding in judgement.findings),
        worst_ratio=max((found.worst_ratio for found in judged if found.worst_ratio is not None), default=None),
        compared=sum(judgement.compared for judgement in judged),
        recorded=sum(judgement.recorded for judgement in judged),
        suffices=last.suffices,
        resolution=joined(each) if (each := [law.resolution for law in judged if law.resolution]) else None,
    )
