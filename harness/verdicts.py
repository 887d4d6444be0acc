"""The verdict on a run, from its evidence: by one replica first, and by more runs where that leaves it open."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Literal

from harness.attempts import JudgedAttempt, Tasks
from harness.errors import Abstained, NothingObserved
from harness.evidence.parts import read_parts
from harness.evidence.reference import Reference
from harness.evidence.witness_values import lines_of_draws
from harness.example_runs import by_counts, by_drawn_data, by_ranks, by_ties
from harness.judgement import task_summaries
from harness.judging.assumptions import without_judgement
from harness.judging.conditions import DRAWN_DATA, shown
from harness.judging.explain.copies_packed import COPIES_PACKED
from harness.judging.per_replica import (
    drawn_by_each,
    leaves_out_steps,
    made_for_each,
    own_state,
    reports_own,
    settled,
    sources,
    trained_from,
    variables_differ,
    with_own_state,
)
from harness.judging.repeated_draws import repeated_draws
from harness.judging.sufficiency import too_little, trains_aside
from harness.judging.trained_variables import trained_copies_agree, trained_uncompared
from harness.judging.unsteady_runs import OUTSIDE, differs_by_counts, is_outside
from harness.judging.verdict import Verdict
from harness.phases import phase
from harness.running.live_reference import LiveReference
from harness.running.resume_steps import segments_by_state
from harness.running.script_checks import line_under_way
from simulator import LockstepError, RunFailed, RunResult

_WHOLE_BATCH = (
    "One replica has the examples of all there: a size that is that of one replica's batch is better taken of the "
    "examples, as tf.shape(x)[0]"
)
_OF_SHAPES = {"ValueError", "InvalidArgumentError"}
"""What TensorFlow raises where sizes do not fit one another."""

_OWN_DRAWS: dict[Literal["sum", "first"], str] = {
    "sum": "what replicas draw at {} adds up to noise of the spread that one device draws",
    "first": "of what replicas draw at {} only that of the first one counts",
}


def verdict_of(
    attempt: JudgedAttempt, meanwhile: Callable[[], None] = lambda: None
) -> tuple[Verdict, Reference | None]:
    """Run it, and judge it.

    Args:
        attempt: what is run.
        meanwhile: begins what may be done beside the runs of the reference.

    Returns:
        The verdict, and what the run was held against; None where that could not be made.

    Raises:
        NothingObserved: a function reports nothing.
        RunFailed: the run fails, or a function does so on one device.
    """
    program = attempt.program

    def abstained(why: str) -> tuple[Verdict, None]:
        return Verdict(program.name, attempt.case.name, (), tolerance=attempt.asked.tier, abstained=why), None

    result: RunResult | None = None
    try:
        with attempt.followed() as live:
            result = attempt.run(live)
            meanwhile()
            return judged_by(attempt, task_summaries(result), live)
    except (Abstained, NothingObserved) as why:
        if program.script is None and isinstance(why, NothingObserved):
            raise
        return abstained(str(why))
    except RunFailed as failure:
        if result is None or program.script is None:
            raise
        where, said = line_under_way(failure, program.script), str(failure).splitlines()[0].rstrip(".")
        fails = f"the script runs under {attempt.case.name}, and fails as its own reference{where}: {said}"
        apart = trained_copies_agree(read_parts(attempt.directory).last)
        if apart.status != "broken":
            of_shapes = any(_OF_SHAPES & {*cause.bases} for cause in failure.causes)
            return abstained(f"{fails}. {_WHOLE_BATCH}" if of_shapes else fails)
        verdict = Verdict(program.name, attempt.case.name, (apart,), tolerance=attempt.asked.tier, notes=(fails,))
        return dataclasses.replace(verdict, tasks=task_summaries(result)), None


def judged_by(attempt: JudgedAttempt, tasks: Tasks, live: LiveReference | None = None) -> tuple[Verdict, Reference]:
    """The verdict on a run that has left its evidence, and what it was held against.

    Args:
        attempt: what was run.
        tasks: as of `Verdict`.
        live: has followed the run while it went on.

    Raises:
        Abstained: no step has left evidence.
        RunFailed: a script fails as its own reference.
    """
    case = attempt.case
    verdict, reference = by_ties(attempt, *attempt.by_one_replica(tasks, live=live))
    verdict, reference = by_ranks(attempt, verdict, reference)
    if attempt.changes is not None and reference.follows:
        again = repeated_draws(segments_by_state(read_parts(attempt.directory)))
        verdict = dataclasses.replace(verdict, conditions=(*verdict.conditions, *([again] if again else ())))
    if verdict.outcome == "inconsistent" and differs_by_counts(verdict) and reference.follows:
        verdict = by_counts(attempt, verdict, reference)
        if verdict.outcome == "abstained":
            return verdict, reference
    if verdict.outcome == "inconsistent":
        verdict = attempt.judged(reference, tasks, diagnose=True)
        packed = verdict.explanation is not None and verdict.explanation.rule == COPIES_PACKED  # by the program itself
        if case.family.on_mesh and attempt.changes is None and not packed:
            verdict = attempt.of_tensorflow(verdict)
    if verdict.outcome == "inconsistent" and attempt.changes is None and case.replicas > 1 and reference.follows:
        with contextlib.suppress(LockstepError):  # then nothing more is known
            if (why := attempt.made_up_for(verdict, reference)) is not None:
                return without_judgement(verdict, why), reference
    if case.ps and reference.follows and is_outside(verdict, attempt.evidence):
        return without_judgement(verdict, OUTSIDE), reference
    verdict, by = _by_more_runs(attempt, verdict, reference, tasks)
    return sufficient(attempt, verdict, by), reference


def sufficient(attempt: JudgedAttempt, verdict: Verdict, reference: Reference) -> Verdict:
    """The verdict; one that is consistent and has compared too little is taken back."""
    if verdict.outcome != "consistent":
        return verdict
    why = trains_aside(verdict, attempt.first)
    if why is None and reference.follows:
        why = too_little(verdict, attempt.first, reference.trace)
    return verdict if why is None else without_judgement(verdict, why)


def _by_more_runs(
    attempt: JudgedAttempt, verdict: Verdict, reference: Reference, tasks: Tasks
) -> tuple[Verdict, Reference]:
    """A verdict by one replica, where that cannot say all, and by what its steps are judged."""
    if verdict.outcome == "consistent" and any(each.code == DRAWN_DATA for each in verdict.conditions):
        return by_drawn_data(attempt, verdict, reference), reference
    if attempt.case.replicas == 1 or attempt.changes is not None or not reference.follows:
        return verdict, reference
    if verdict.outcome != "consistent" or leaves_out_steps(reference.trace):
        return _by_what_is_own(attempt, verdict, reference, tasks)
    return verdict, reference


def _by_what_is_own(
    attempt: JudgedAttempt, verdict: Verdict, reference: Reference, tasks: Tasks
) -> tuple[Verdict, Reference]:
    """A verdict that is inconsistent, or says nothing of some steps, where replicas may have something of their own."""
    trace, evidence = reference.trace, attempt.evidence
    renamed = trained_uncompared(attempt.first, trace, as_many=True)
    if (
        why := renamed
        or made_for_each(verdict, attempt.first, trace, evidence)
        or drawn_by_each(verdict, trace, evidence)
    ):
        return without_judgement(verdict, why), reference
    if names := trained_from(verdict, attempt.evidence):
        verdict = with_own_state(verdict, names)
    own = sources(verdict, reference.trace, attempt.evidence)
    if not own or reports_own(verdict, attempt.evidence):
        return verdict, reference
    with contextlib.suppress(LockstepError):  # then nothing more is known
        by_wholes = settled(verdict, attempt.by_wholes(tasks), own, reference.trace)
        if by_wholes.outcome == "consistent" and (names := own_state(attempt.evidence)):
            phase("following it with the same state on all replicas, for whether they train from their own")
            if variables_differ(attempt.by_wholes(tasks, common=True)):
                return with_own_state(verdict, names), reference
        verdict = by_wholes
    if verdict.outcome != "inconsistent":
        return verdict, reference
    return _by_own_draws(attempt, verdict, reference, tasks)


def _by_own_draws(
    attempt: JudgedAttempt, verdict: Verdict, reference: Reference, tasks: Tasks
) -> tuple[Verdict, Reference]:
    """An inconsistent verdict, unless what replicas draw for themselves comes to what one device draws."""
    lines = lines_of_draws(reference.trace, "own")
    for own, what in _OWN_DRAWS.items() if lines else ():
        phase("following it again, for what the draws of each replica come to")
        with contextlib.suppress(LockstepError):  # then nothing more is known
            drawn, by = attempt.by_draws(tasks, own)
            if drawn.outcome == "consistent":
                return dataclasses.replace(drawn, notes=(*drawn.notes, what.format(shown(lines)))), by
    return verdict, reference
