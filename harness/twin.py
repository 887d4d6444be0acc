"""The verdict on a run by its twin: the same program under the default strategy, beside the run and not along with it.

For runs that no process can follow yet: those in parts, a coordinator's, and those with a reference elsewhere.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.asked import Asked
from harness.errors import Abstained, NothingObserved
from harness.evidence.independence import check_independent, read_touched
from harness.evidence.parts import INTERRUPTED, TRACES, read_parts
from harness.evidence.reference import Reference
from harness.judged import judge, task_summaries
from harness.judging.closer import is_open, is_plain
from harness.judging.verdict import Verdict
from harness.running.coordinated import followed
from harness.running.disturbance import Disturbance
from harness.running.interrupt import Interrupting, run_twice
from harness.running.observe import run_once
from harness.running.reference import cache_directory, reference_of
from harness.running.room import check_run_fits, files_beside
from harness.running.scripted import check_whole
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase
from simulator import RunFailed, RunResult

__all__ = ["judge_left", "judged_by_twin", "judged_run"]


def judged_by_twin(
    program: Program,
    case: StrategyCase,
    changes: Interrupting | Disturbance | None,
    directory: Path,
    asked: Asked,
    result: RunResult | None,
    began: float,
) -> tuple[Verdict, Reference | None]:
    """The verdict on a run, and what it was held against; None where that could not be made.

    Args:
        program: what is run.
        case: the strategy.
        changes: what disturbs the run.
        directory: of the run.
        asked: the rest.
        result: of the run, if that has been made.
        began: from when on the verdict counts its seconds, on the monotonic clock.
    """
    try:
        beside = files_beside(cache_directory(), directory, len(case.clients), keep=asked.keep)
        known = {} if result is None else {f"the run under {case.name}": read_touched(directory / TRACES)}
        makes: dict[str, Any] = {"perturbed": asked.derived, "known": known, **asked.makes(case)}
        reference = reference_of(program, **makes, **asked.of_truth, beside=beside)
    except (Abstained, NothingObserved) as why:
        if program.script is None and isinstance(why, NothingObserved):
            raise
        return Verdict(program.name, case.name, (), tolerance=asked.tier, abstained=str(why)), None
    except RunFailed as failure:
        if program.script is None:
            raise
        # If it fails in the cluster as well, that is what is wrong with it.
        if result is None:
            run_once(program, case, directory, **asked.of_run)
        why_not = f"the script runs under {case.name}, and fails as its own reference: {str(failure).splitlines()[0]}"
        return Verdict(program.name, case.name, (), tolerance=asked.tier, abstained=why_not), None
    check_whole(program, reference.trace, changes)
    if result is None:
        verdict = judged_run(program, case, changes, directory, reference, began, **asked.of_run)
    else:
        _check_independent(program.name, case.name, directory, reference)
        verdict = judge_left(program, case, changes, directory, reference, result, time.monotonic() - began)
    judged_as, verdict, reference = _followed(verdict, program, case, changes, reference, directory, asked)
    if is_open(verdict):
        verdict, reference = _made_sure(verdict, judged_as, case, reference, directory, asked)
    return verdict, reference


def _followed(
    verdict: Verdict,
    program: Program,
    case: StrategyCase,
    changes: Interrupting | Disturbance | None,
    reference: Reference,
    directory: Path,
    asked: Asked,
) -> tuple[Program, Verdict, Reference]:
    """The verdict on a coordinator's script by a reference whose workers began their data anew as those of the run."""
    closures = changes is not None and program.script is not None and case.ps
    options: dict[str, Any] = {"perturbed": asked.derived, **asked.of_truth}
    if not closures or (found := followed(verdict, program, directory, **options)) is None:
        return program, verdict, reference
    told, reference = found
    said: dict[str, Any] = {"tasks": verdict.tasks, "seconds": verdict.seconds, "faults": verdict.faults}
    return told, judge(read_parts(directory), reference, program=program.name, **said), reference


def _made_sure(
    verdict: Verdict, program: Program, case: StrategyCase, reference: Reference, directory: Path, asked: Asked
) -> tuple[Verdict, Reference]:
    """The verdict by all that can be known of the reference, where a first look does not end in consistency."""
    began, known, earlier = time.monotonic(), len(reference.perturbed), reference.earlier
    try:
        more = not is_plain(verdict)
        surer: dict[str, Any] = {"check": True, "more": more, **asked.makes(case)}
        surer_one = reference_of(program, perturbed=asked.derived, **surer, **asked.of_truth)
        told = tuple(dict.fromkeys((*reference.notes, *surer_one.notes)))
        reference = dataclasses.replace(surer_one, earlier=earlier, notes=told)
    except Abstained as why:
        nothing: dict[str, Any] = {"judgements": (), "explanation": None, "closest": None, "ledger": None}
        return dataclasses.replace(verdict, abstained=str(why), **nothing), reference
    _check_independent(program.name, verdict.strategy, directory, reference)
    if len(reference.perturbed) == known and reference.threads is None:
        return verdict, reference
    again = judge(
        read_parts(directory),
        reference,
        program=program.name,
        tasks=verdict.tasks,
        seconds=verdict.seconds + time.monotonic() - began,
        faults=verdict.faults,
    )
    return again, reference


@contextlib.contextmanager
def _independent(program: str, case: StrategyCase, directory: Path, reference: Reference) -> Iterator[None]:
    """Around the run to be judged: it reads nothing that the reference has written, of which it may also have died."""
    try:
        yield
    except RunFailed:
        _check_independent(program, case.name, directory, reference)
        raise
    _check_independent(program, case.name, directory, reference)


def _check_independent(program: str, strategy: str, directory: Path, reference: Reference) -> None:
    touched = read_touched(directory / TRACES, directory / INTERRUPTED)
    check_independent(program, {**reference.touched, f"the run under {strategy}": touched})


def judged_run(
    program: Program,
    case: StrategyCase,
    disturbed: Interrupting | Disturbance | None,
    directory: Path,
    reference: Reference,
    began: float,
    **options: Any,
) -> Verdict:
    """Run a program once and judge what it has left in `directory`.

    Args:
        program: what to run.
        case: the strategy.
        disturbed: what happens to it.
        directory: as `kept_in` gives it.
        reference: what should come out.
        began: from when on the verdict counts its seconds, on the monotonic clock.
        options: `seed`, `timeout`, `stream` and `keep`, as of `run_once`.

    Raises:
        SharedState: it has read a file that a run of the reference had written.
        RunFailed: as of `run_once`.
    """
    result = _run(program, case, disturbed, directory, reference, **options)
    return judge_left(program, case, disturbed, directory, reference, result, time.monotonic() - began)


def judge_left(
    program: Program,
    case: StrategyCase,
    disturbed: Interrupting | Disturbance | None,
    directory: Path,
    reference: Reference,
    result: RunResult,
    seconds: float,
) -> Verdict:
    """Judge what a run has left; also of one that failed, as long as every client has come to its end."""
    faults = disturbed.to_json(case.topology) if isinstance(disturbed, Disturbance) else None
    tasks = task_summaries(result)
    said: dict[str, Any] = {"tasks": tasks, "seconds": seconds, "faults": faults}
    return judge(read_parts(directory), reference, program=program.name, **said)


def _run(
    program: Program,
    case: StrategyCase,
    disturbed: Interrupting | Disturbance | None,
    directory: Path,
    reference: Reference,
    *,
    keep: bool,
    **options: Any,
) -> RunResult:
    """The run to be judged, which leaves what its clients recorded in `directory`."""
    check_run_fits(directory, len(case.clients), reference.trace)
    with _independent(program.name, case, directory, reference):
        if isinstance(disturbed, Interrupting):
            disturbed.check_reached(program.name, reference.trace)
            return run_twice(program, case, disturbed, directory, **options)
        return run_once(program, case, directory, keep=keep, disturbance=disturbed, **options)
