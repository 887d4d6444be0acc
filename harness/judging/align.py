"""How a run in parts is judged: each part by every law against the same steps of the reference, and all as one run.

A program counts its calls of `record.step` from 1 in every incarnation and does not say where it has resumed. The last
part is aligned with the reference by its end, as `harness.judging.interruption` has it. A part before it that was
resumed and killed has neither end in common with the reference: it is taken to begin where the laws find nothing wrong
with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec

from harness.evidence.observed import epoch_ends, per_epoch
from harness.evidence.parts import Part, Parts
from harness.evidence.reference import Reference
from harness.evidence.trace import ClientTrace, Counters, RunTrace, Step
from harness.judging.interruption import Interruption, interrupted_case, steps_between
from harness.judging.laws import Case, judge_all
from harness.judging.laws.protocol import Finding, Judgement, Strike
from harness.judging.local_values import with_local_values_marked
from harness.judging.strikes import placed, restored
from harness.judging.tolerance import tolerance_of

__all__ = ["Judged", "judge_parts"]


@dataclass(frozen=True)
class Judged:
    """What the laws say of a run.

    Attributes:
        judgements: one of each law, broken where it is broken in any part.
        case: what explanations are looked for in: the first part that is wrong, else the last.
        last: the case of the last part; its `interruption` holds the parts before.
    """

    judgements: tuple[Judgement, ...]
    case: Case
    last: Case


@dataclass
class _Done:
    """What the parts so far have done: the step reached, and what each client recorded, later steps over earlier."""

    reached: int = 0
    steps: dict[str, dict[int, Step]] = field(default_factory=dict)
    clients: dict[str, ClientTrace] = field(default_factory=dict)

    def add(self, run: RunTrace, shift: int) -> None:
        """Keep the steps of a part, `shift` later than they count themselves."""
        for client in run.clients:
            task = client.header.task
            self.clients.setdefault(task, client)
            moved = (msgspec.structs.replace(step, index=step.index + shift) for step in client.steps)
            self.steps.setdefault(task, {}).update({step.index: step for step in moved})

    def trace(self) -> RunTrace:
        """All of it as if it were one run, up to the last kill."""
        return RunTrace(
            tuple(
                ClientTrace(
                    client.header,
                    tuple(self.steps[task][index] for index in sorted(self.steps[task])),
                    counters=Counters(per_epoch=client.counters.per_epoch),
                )
                for task, client in self.clients.items()
            )
        )


def judge_parts(parts: Parts, reference: Reference) -> Judged:
    """What the laws say of every part.

    A run that began again at step 1 is no finding if nothing had been saved, unless it was to show that it resumes.
    """
    number = 1 + len(parts.earlier)
    done = _Done()
    wrong: list[Case] = []
    judgements: list[tuple[Judgement, ...]] = []
    struck: tuple[Strike, ...] = ()
    for k, part in enumerate(parts.earlier, start=1):
        if part.common == 0:  # nothing to hold against the reference; it may have got no further than one step
            done.reached += part.furthest
            continue
        begin, case, found = _aligned(part, done.reached if k > 1 else 0, reference)
        struck = (*restored(case, struck), *placed(case, part.struck))
        case = replace(case, struck=struck)
        # Ends of epochs count from 1 in each part, steps are those of the reference already.
        done.add(case.run, begin if per_epoch(case.run, reference.trace) else 0)
        done.reached = max(done.reached, begin + part.furthest)
        judgements.append(tuple(_in_part(judgement, k, number) for judgement in found))
        wrong += [case] if _broken(found) else []
    last = _last_case(parts, reference, done)
    struck = (*restored(last, struck), *placed(last, parts.struck))
    last = replace(last, links=parts.links, struck=struck)
    found = judge_all(last)
    if not judgements:
        return Judged(found, last, last)
    judgements.append(tuple(_in_part(judgement, number, number) for judgement in found))
    return Judged(_joined(judgements), wrong[0] if wrong else last, last)


def _aligned(part: Part, latest: int, reference: Reference) -> tuple[int, Case, tuple[Judgement, ...]]:
    """Where a killed part began, at `latest` or before: where no law is broken, or else the fewest findings are."""
    tried = []
    for begin in range(latest, -1, -1):
        case = with_local_values_marked(_case_from(part, begin, reference))
        judgements = judge_all(case)
        tried.append((begin, case, judgements))
        if not _broken(judgements):
            return tried[-1]
    return min(tried, key=lambda found: sum(len(judgement.findings) for judgement in found[2]))


def _case_from(part: Part, begin: int, reference: Reference) -> Case:
    truth = reference.trace
    run = steps_between(part.trace, 1, part.common)
    if per_epoch(run, truth):
        ends = [0, *epoch_ends(truth)]
        first, last = ends[min(begin, len(ends) - 1)] + 1, ends[min(begin + part.common, len(ends) - 1)]
    else:
        first, last = begin + 1, begin + part.common
        run = RunTrace(tuple(_shifted(client, begin) for client in run.clients))
    return Case(run=run, reference=steps_between(truth, first, last), tolerance=tolerance_of(reference))


def _shifted(client: ClientTrace, by: int) -> ClientTrace:
    steps = tuple(msgspec.structs.replace(step, index=step.index + by) for step in client.steps)
    return msgspec.structs.replace(client, steps=steps)


def _units(run: RunTrace, reference: RunTrace) -> int:
    """How many steps the whole run records: those of the reference, or its epochs."""
    return len(epoch_ends(reference)) if per_epoch(run, reference) else len(reference.clients[0].steps)


def _last_case(parts: Parts, reference: Reference, done: _Done) -> Case:
    truth, last = reference.trace, parts.last
    recorded = max(len(client.steps) for client in last.clients)
    anew = _units(last, truth) <= recorded and not parts.saved and not parts.must_resume
    if not done.reached or anew:
        return with_local_values_marked(Case(run=last, reference=truth, tolerance=tolerance_of(reference)))
    before = done.trace() if done.clients else RunTrace(tuple(map(_empty, last.clients)))
    interruption = Interruption(
        at=min(done.reached, _units(before, truth)),
        before=before,
        recorded=recorded,
        in_epochs=per_epoch(last, truth),
        reference=truth,
        resume_strategy=last.header.strategy,
        saved=parts.saved,
    )
    return with_local_values_marked(interrupted_case(last, reference, interruption))


def _empty(client: ClientTrace) -> ClientTrace:
    return ClientTrace(client.header, counters=Counters(per_epoch=client.counters.per_epoch))


def _broken(judgements: Sequence[Judgement]) -> bool:
    return any(judgement.status == "broken" for judgement in judgements)


def _in_part(judgement: Judgement, number: int, count: int) -> Judgement:
    """The judgement with the part in each text."""
    where = f"in part {number} of {count}"
    if count == 2:
        where = "before the interruption" if number == 1 else "resumed"
    findings = tuple(_placed(finding, where) for finding in judgement.findings)
    return replace(judgement, findings=findings)


def _placed(finding: Finding, where: str) -> Finding:
    return replace(finding, text=f"{where}, {finding.text}")


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
    if last.status == "not_judged" and not broken:
        return replace(last, reason=f"held until the interruption; in the resumed run: {last.reason}")
    return Judgement(
        law=last.law,
        status="broken" if broken else "held",
        findings=tuple(finding for judgement in judged for finding in judgement.findings),
        worst_ratio=max((found.worst_ratio for found in judged if found.worst_ratio is not None), default=None),
        compared=sum(judgement.compared for judgement in judged),
        recorded=sum(judgement.recorded for judgement in judged),
        suffices=last.suffices,
    )
