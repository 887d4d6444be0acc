"""The verdict on a run each of whose steps one replica computes again, from what the step had.

A step starts from a state, is given examples and draws random numbers; the run leaves all three as evidence. Another
process of the same program, with one replica, is set to the state, given the examples, and yields the draws. What
differs then was computed otherwise. Nothing accumulates, no seed is needed, and no step depends on the ones before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from pathlib import Path
from typing import Any

from harness.asked import Asked
from harness.errors import Abstained, NothingObserved
from harness.evidence.parts import TRACES, read_parts
from harness.evidence.reference import Reference
from harness.evidence.steps import RunEvidence, segment_of
from harness.judged import judge, task_summaries
from harness.judging.closer import is_open, is_plain
from harness.judging.own import settled, sources
from harness.judging.verdict import Verdict
from harness.running.disturbance import Disturbance
from harness.running.followed import NOISY_RUNS, failure_on_one_device, following
from harness.running.interrupt import Interrupting, run_twice
from harness.running.observe import run_once
from harness.running.scripted import check_whole
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase
from simulator import LockstepError, RunFailed, RunResult

__all__ = ["is_followed", "judged_by_step", "run_with_evidence"]

_KINDS = ("default", "one_device", "mirrored", "central_storage", "multi_worker")


def is_followed(program: Program, case: StrategyCase, changes: Interrupting | Disturbance | None, asked: Asked) -> bool:
    """Whether the reference of such a run can follow it.

    Not what a coordinator's workers compute, nor with a reference elsewhere, yet.
    """
    if asked.python is not None or asked.reference != "cpu" or case.rehearsed:
        return False
    later = changes.resume_case if isinstance(changes, Interrupting) else case
    return case.kind in _KINDS and later.kind in _KINDS


def run_with_evidence(
    program: Program, case: StrategyCase, changes: Interrupting | Disturbance | None, directory: Path, asked: Asked
) -> tuple[RunResult, bool]:
    """Run the program once; what each step had is left in `directory` beside what was recorded.

    Returns:
        The outcome, and whether there is evidence of any step.

    Raises:
        NothingObserved: the program reports nothing.
        RunFailed: a task crashed, hung or vanished; of one that fails on one device too, that one.
    """
    try:
        result = _run(program, case, changes, directory, asked)
    except RunFailed as failure:
        if (
            changes is None
            and program.script is None
            and (alike := failure_on_one_device(program, failure, **asked.of_reference))
        ):
            raise alike from failure
        raise
    return result, RunEvidence([segment_of(directory / TRACES)]).is_there


def _run(
    program: Program, case: StrategyCase, changes: Interrupting | Disturbance | None, directory: Path, asked: Asked
) -> RunResult:
    if isinstance(changes, Interrupting):
        return run_twice(program, case, changes, directory, **asked.of_interrupted, keeps=True)
    return run_once(program, case, directory, **asked.of_run, disturbance=changes, keeps=True)


def judged_by_step(
    program: Program,
    case: StrategyCase,
    changes: Interrupting | Disturbance | None,
    directory: Path,
    result: RunResult,
    asked: Asked,
    began: float,
) -> tuple[Verdict, Reference | None] | None:
    """The verdict on a run that has left evidence, and what it was held against; None where that could not be made.

    None of both where one replica cannot compute with what the run had, such as a batch of another size.

    Args:
        program: what was run.
        case: the strategy.
        changes: what has disturbed the run.
        directory: holds what the run has left.
        result: of the run.
        asked: the rest.
        began: from when on the verdict counts its seconds, on the monotonic clock.
    """
    try:
        return _judged(program, case, changes, directory, result, asked, began)
    except (Abstained, NothingObserved) as why:
        if program.script is None and isinstance(why, NothingObserved):
            raise
        return Verdict(program.name, case.name, (), tolerance=asked.tier, abstained=str(why)), None
    except RunFailed as failure:
        if program.script is None:
            return None
        why_not = f"the script runs under {case.name}, and fails as its own reference: {str(failure).splitlines()[0]}"
        return Verdict(program.name, case.name, (), tolerance=asked.tier, abstained=why_not), None


def _judged(
    program: Program,
    case: StrategyCase,
    changes: Interrupting | Disturbance | None,
    directory: Path,
    result: RunResult,
    asked: Asked,
    began: float,
) -> tuple[Verdict, Reference]:
    faults = changes.to_json(case.topology) if isinstance(changes, Disturbance) else None
    makes = asked.makes(case) if asked.derived else {}

    def judged(reference: Reference) -> Verdict:
        said: dict[str, Any] = {"tasks": task_summaries(result), "seconds": time.monotonic() - began, "faults": faults}
        return judge(read_parts(directory), reference, program=program.name, forced=asked.forced, **said)

    def by(replicas: int) -> tuple[Verdict, Reference]:
        about: dict[str, Any] = {"replicas": replicas, **makes, **asked.of_reference}
        with following(program, directory, case.name, **about) as followers:
            reference = dataclasses.replace(followers.plain(), tier=asked.tier)
            check_whole(program, reference.trace, changes)
            verdict = judged(reference)
            for noisy in NOISY_RUNS if asked.derived else ():
                if not is_open(verdict) or (noisy > NOISY_RUNS[0] and is_plain(verdict)):
                    break
                reference = dataclasses.replace(followers.with_noise(noisy), tier=asked.tier)
                verdict = judged(reference)
        return verdict, reference

    verdict, reference = by(1)
    if verdict.outcome == "consistent" or case.replicas == 1 or changes is not None:
        return verdict, reference
    if program.script is not None and case.kind != "mirrored":  # the script builds the strategy
        return verdict, reference
    if not (own := sources(reference.trace, RunEvidence([segment_of(directory / TRACES)]).readers)):
        return verdict, reference
    with contextlib.suppress(LockstepError):  # then nothing more is known
        again, _ = by(case.replicas)
        verdict = settled(verdict, again, own)
    return verdict, reference
