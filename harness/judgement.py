"""What is said of a recorded run, by the laws and, if it is inconsistent, by the rules. Needs no TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from harness.evidence.parts import Parts
from harness.evidence.reference import Reference
from harness.evidence.witness_values import for_coordinator
from harness.judging.align.other_draws import none_judged
from harness.judging.conditions import SHUFFLED, SHUFFLED_APART
from harness.judging.environments import environments_of
from harness.judging.explain import closest
from harness.judging.explain import explain as explanation_of
from harness.judging.judge import JudgedRun, judge_parts
from harness.judging.losses import course_of
from harness.judging.not_finite import not_finite
from harness.judging.resumed_script import worded
from harness.judging.verdict import Verdict
from harness.judging.wrong_steps import wrong_steps_of
from harness.ledger import Ledger, aligned
from simulator import RunResult

IN_TURNS = (
    "closures were run one at a time, each worker in its turn, in the run as in its reference: nothing is said of "
    "updates that meet"
)


def judge(
    parts: Parts,
    reference: Reference,
    *,
    program: str,
    tasks: dict[str, dict[str, Any]],
    seconds: float,
    faults: dict[str, Any] | None = None,
    forced: bool = False,
    diagnose: bool = True,
) -> Verdict:
    """What all laws say of a recorded run, and the diagnosis if it is inconsistent. Needs no TensorFlow.

    Args:
        parts: what was recorded, see `harness.evidence.parts.read_parts`.
        reference: what should have been.
        program: its name.
        tasks: as in `Verdict`.
        seconds: that the run took.
        faults: as in `Verdict`.
        forced: whether the reference followed the run.
        diagnose: whether to say why it is inconsistent, which takes longer than to find that it is.
    """
    judged = judge_parts(parts, reference)
    in_turns = (IN_TURNS,) if for_coordinator(parts.last) else ()
    found = judged.last.interruption
    verdict = Verdict(
        program=program,
        strategy=(parts.earlier[0].trace if parts.earlier else parts.last).header.strategy,
        judgements=judged.judgements,
        conditions=judged.conditions,
        tasks=tasks,
        seconds=seconds,
        tolerance=judged.case.tolerance.name,
        interrupted=None if found is None else found.to_json(),
        faults=faults,
        links=None if parts.links is None else parts.links.to_json(),
        placement=_placement(parts),
        environments=environments_of(parts.last, reference),
        abstained=not_finite(reference.trace, judged.case.reference)
        or none_judged(judged.last.apart, judged.last.reference),
        notes=tuple(dict.fromkeys((*reference.notes, *judged.last.notes, *in_turns))),
        forced=forced,
    )
    first = verdict.first_divergence
    course = course_of(judged.case, None if first is None else first.step, judged.judgements)
    verdict = dataclasses.replace(verdict, course=course)
    if diagnose and verdict.outcome == "inconsistent":
        counted = parts.last.clients[0].counters.counted
        verdict = dataclasses.replace(_diagnosed(verdict, judged, follows=reference.follows), counted=counted)
    return worded(verdict) if parts.last.header.at_once else verdict


def _diagnosed(verdict: Verdict, judged: JudgedRun, *, follows: bool) -> Verdict:
    """The verdict with why it is inconsistent."""
    given = SHUFFLED if any(each.code == SHUFFLED_APART for each in verdict.conditions) else None
    why = explanation_of(judged.case, given=given)
    others = [judgement.law for judgement in verdict.judgements if judgement.status != "broken"]
    return dataclasses.replace(
        verdict,
        explanation=why,
        closest=closest(judged.case) if why is None else None,
        ledger=_ledger(judged, verdict),
        alone=wrong_steps_of(judged.case, others) if follows else None,
    )


def _placement(parts: Parts) -> dict[str, Any] | None:
    found = {client.header.task: client.counters.placement for client in parts.last.clients}
    return {task: msgspec.to_builtins(each) for task, each in found.items() if each is not None} or None


def _ledger(judged: JudgedRun, verdict: Verdict) -> str | None:
    """Who consumed what, if that is wrong; of an interrupted run in all parts, without the steps that were undone."""
    if not any(law.law == "examples_match_reference" and law.status == "broken" for law in verdict.judgements):
        return None
    case = judged.case
    found = case.interruption
    if found is None or found.in_epochs:
        return aligned(case.run, case.reference).table()
    before, after = (Ledger.of(part, found.reference) for part in (found.before, case.run))
    return Ledger.joined(before, after, found.resumed_at).table(Ledger.of(found.reference))


def task_summaries(result: RunResult) -> dict[str, dict[str, Any]]:
    """What verdicts say of each task."""
    return {
        name: {
            "exit": task.exit,
            "steps": task.steps,
            "incarnation": task.incarnation,
            "stopped": task.stopped,
            "devices": list(task.devices),
            **({} if task.machine is None else {"machine": task.machine}),
        }
        for name, task in result.items()
    }
