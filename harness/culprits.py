"""Looks at every operation of the step at which a run first differs from its reference, and names the line."""

from __future__ import annotations

import functools
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.evidence.observed import OBSERVABLES, items
from harness.evidence.parts import read_parts
from harness.evidence.reference import Reference
from harness.evidence.steps import Standing
from harness.evidence.trace import Array, MeanSeen, RunTrace, Value, is_statistics
from harness.evidence.watch_request import WatchRequest
from harness.evidence.witness_values import seen_by_step, wrong_draws
from harness.judging.batch_of_average import TOLD_BATCH, average_of_one_replica
from harness.judging.conditions import OWN
from harness.judging.culprit import (
    Culprit,
    Looked,
    NoCulprit,
    WrongReport,
    average_culprit,
    closure_culprit,
    draw_culprit,
    find_culprit,
    layout_culprit,
    made_by_hand,
    mean_culprit,
    next_look,
    pipeline_culprit,
)
from harness.judging.culprit.kinds import STATE
from harness.judging.explain.batch_logs_times_workers import BATCH_LOGS
from harness.judging.explain.causes import all_causes
from harness.judging.explain.copies_packed import COPIES_PACKED
from harness.judging.explain.data_restarted import DATA_RESTARTED
from harness.judging.explain.metric_not_aggregated import NOT_AGGREGATED
from harness.judging.given_back import called
from harness.judging.given_otherwise import given_otherwise
from harness.judging.laws.evaluations_match_reference import EVALUATION
from harness.judging.laws.protocol import Finding
from harness.judging.placed_work import placed_by_hand
from harness.judging.restore_lines import line_that_restores
from harness.judging.set_between_steps import set_between_steps
from harness.judging.verdict import Verdict
from harness.phases import phase
from harness.running.watched_step import LOOKS, WatchedRuns, watch_by_hand, watch_step
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase, has_servers
from simulator import LockstepError
from simulator.agent.places import place

CULPRIT_VARIABLE = "LOCKSTEP_CULPRIT"
"""Set to 0, no culprit is looked for where nobody has asked: in a suite of programs that are wrong on purpose.

Set to 1, one is looked for always, also where nothing is wrong.
"""

# Steps that are watched, one after another, until one begins with the right variables.
_STEPS_BACK = 3
_DRAWN_APART = "each replica draws numbers of its own, and changes its copy of a variable by what it has drawn"
# Runs of one step, in each of which some of its operations are looked at.
_RUNS = 16


def is_wanted(verdict: Verdict, explain: bool | None) -> bool:
    """Whether a culprit is looked for; `explain` as of `verify`."""
    if explain is None:
        always = os.environ.get(CULPRIT_VARIABLE)
        return always == "1" or (verdict.outcome == "inconsistent" and always != "0")
    return explain


def with_culprit(
    verdict: Verdict, program: Program, case: StrategyCase, directory: Path, reference: Reference, **options: Any
) -> Verdict:
    """A verdict with the line that made its first wrong value, or why there is none, after more runs that are watched.

    Args:
        verdict: of a run that was not disturbed.
        program: what has been run.
        case: under what strategy.
        directory: holds what the run has left.
        reference: what it was judged by.
        options: `seed` and `timeout`, as of `verify`.
    """
    if (drawn := _drawn(verdict, reference)) is not None:
        return verdict.seen(Looked(drawn, None, 0.0))
    phase("watching the step, for the line that made it wrong")
    began = time.monotonic()
    run = read_parts(directory).last
    found = _looked(verdict, program, case, run, reference, **options)
    if isinstance(found, NoCulprit):
        found = _updating(verdict.first_divergence, run) or found
    if isinstance(found, Culprit) and _is_given(found, verdict, reference):
        broken = {law.law for law in verdict.judgements if law.status == "broken"}
        if broken == {"replicas_agree"}:
            found = replace(found, relation=_DRAWN_APART, kind=STATE.code)
        elif verdict.consistent or case.family.on_mesh:
            found = NoCulprit("what differs first is what each replica has for itself, and that is given")
        else:
            wholes = replace(reference, standing=Standing(case.replicas))
            found = _looked(verdict, program, case, run, wholes, **options)
    seconds = time.monotonic() - began
    looked = (
        Looked(found, None, seconds) if isinstance(found, Culprit) else Looked(None, found.why, seconds, found.kind)
    )
    return verdict.seen(looked)


def _drawn(verdict: Verdict, reference: Reference) -> Culprit | None:
    """The line of the draw that is the first thing that is wrong, if it is one."""
    first = verdict.first_divergence
    if first is None or first.observable != "draws":
        return None
    wrong = wrong_draws(seen_by_step(reference.trace).get(first.step or 1))
    return draw_culprit(wrong[0], first.step or 1) if wrong else None


def without_watching(verdict: Verdict, directory: Path, reference: Reference) -> Verdict:
    """A verdict with the line that is to blame, or why there is none, where no step has to be watched to know it.

    So it is with what an input pipeline gives, what a script says of its batch, and what only tf_keras makes.

    Args:
        verdict: of any run.
        directory: holds what the run has left.
        reference: what it was judged by.
    """
    parts = read_parts(directory)
    why, first, run = verdict.explanation, verdict.first_divergence, parts.last
    if why is not None and why.rule == BATCH_LOGS:
        return verdict.seen(Looked(None, "no line of the program makes what tf_keras logs", 0.0))
    if (line := _known_line(verdict, run, reference.trace, interrupted=bool(parts.earlier))) is not None:
        return verdict.seen(Looked(line, None, 0.0))
    begun = parts.earlier[0].trace if parts.earlier else None
    if why is None and (call := given_otherwise(verdict, run, reference.trace, begun)) is not None:
        return verdict.seen(Looked(call, None, 0.0))
    cause = None if why is None else next((each for each in all_causes() if each.id == why.cause), None)
    if cause is not None:
        kinds, what = cause.kinds, cause.what
    elif first is not None and first.observable == "examples" and has_servers(verdict.strategy):
        kinds, what = ("Shard",), "its workers read the same examples, or leave some out"
    elif (why is not None and why.rule == DATA_RESTARTED) or (
        parts.earlier and first is not None and first.observable == "examples"
    ):
        goes_on = "after the interruption it goes on with other examples than the rest of the training"
        kinds, what = ("Skip",), goes_on if why is None else why.evidence.rstrip(".")
    else:
        return verdict
    found = pipeline_culprit(run.clients[0].counters.pipelines, kinds, what, 1 if first is None else first.step or 1)
    culprit, why_not = (found, None) if isinstance(found, Culprit) else (None, found.why)
    return verdict.seen(Looked(culprit, why_not, 0.0))


def _known_line(verdict: Verdict, run: RunTrace, reference: RunTrace, *, interrupted: bool) -> Culprit | None:
    """The line that the run's own notes tell, without its pipelines."""
    why, first = verdict.explanation, verdict.first_divergence
    if why is not None and why.rule == COPIES_PACKED:
        packed = (each for client in run.clients for each in client.counters.packed)
        return next(filter(None, (layout_culprit(*each) for each in packed)), None)
    if any(each.law == TOLD_BATCH for each in verdict.findings) and (told := average_of_one_replica(run)):
        return average_culprit(told[0])
    if first is None and any(each.law == "updates_counted" for each in verdict.findings):
        unjoined = (line for client in run.clients for line in client.counters.unjoined)
        return next(filter(None, map(closure_culprit, unjoined)), None)
    if why is not None and why.rule == NOT_AGGREGATED:
        return _updating(first, run)
    line = set_between_steps(verdict, run, reference, resumed=interrupted)
    return line_that_restores(verdict, run) if line is None and interrupted else line


def _updating(found: Finding | None, run: RunTrace) -> Culprit | None:
    """The line that updates a mean of Keras which is wrong, where the program does not report it."""
    if found is None or any(step.metrics for step in run.clients[0].steps):
        return None
    mean = _mean(found, run)
    return None if mean is None else mean_culprit(mean, found)


def _mean(found: Finding, run: RunTrace) -> MeanSeen | None:
    """What replicas have added to a wrong metric, if it is a mean of Keras."""
    if found.step is None:
        return None
    if found.observable == EVALUATION:
        calls = [each for each in run.clients[0].evaluated if each.after == found.step]
        named = {called(each.name, mean.name): mean for each in calls for mean in each.means}
    else:
        seen = seen_by_step(run).get(found.step) if found.observable == "metrics" else None
        named = {} if seen is None else {mean.name: mean for mean in seen.means}
    return named.get(found.variable or "")


def _is_given(found: Culprit, verdict: Verdict, reference: Reference) -> bool:
    """Whether it is a condition of the verdict, and no mistake."""
    if all(condition.code != OWN for condition in verdict.conditions):
        return False
    if verdict.consistent:
        return True
    drawn = {draw.where for seen in reference.trace.clients[0].seen for draw in seen.draws if draw.kind == "own"}
    return place(Path(found.file).name, found.line) in {Path(where).name for where in drawn}


def _looked(
    verdict: Verdict, program: Program, case: StrategyCase, run: RunTrace, reference: Reference, **options: Any
) -> Culprit | NoCulprit:
    if (why := _hidden(case)) is not None:
        return NoCulprit(why)
    if placed_by_hand(run):
        # Its parts are no replicas', so that already the line which divides the batch would seem to be wrong.
        return NoCulprit("the program divides its work itself, by tf.device, and nobody knows what its parts mean")
    first = verdict.first_divergence
    begins = first is not None and (first.observable, first.step) == ("start", 1)
    if first is not None and not begins and first.observable not in (*OBSERVABLES, EVALUATION):
        return NoCulprit(f"what differs first is no value that an operation gives, but {first.observable}")
    client = reference.trace.clients[0]
    steps = len(client.steps or client.seen)
    step = 1 if first is None and steps else None if first is None else first.step
    if case.family.on_mesh:
        return _by_hand(program, case, step or steps, last=step is None, reference=reference, **options)
    wrong = list(_wrong(verdict, run, step))
    found_at = [each for each in verdict.findings if each.step == step and each.observable == "variables"]
    statistics = any(is_statistics(each.variable or "") for each in found_at)
    found: Culprit | NoCulprit = NoCulprit("no step was watched")
    # From the first wrong step back, where not all variables are recorded that it begins with.
    for at in range(step or steps + 1, max(0, (step or steps + 1) - _STEPS_BACK), -1):
        watched = functools.partial(
            watch_step,
            program,
            case,
            step=at,
            last=at > steps,
            threads=reference.threads,
            reports=bool(client.steps),
            looks=LOOKS,
            standing=None if begins else reference.stands,  # who follows begins with what the run has
            **options,
        )
        try:
            about = {"consistent": verdict.consistent, "elsewhere": case.over is not None, "statistics": statistics}
            about["wholes"] = reference.standing.are_wholes
            found = _in_runs(watched, wrong, **about)
        except LockstepError as error:
            return NoCulprit(f"the program could not be watched: {str(error).splitlines()[0]}")
        if begins and isinstance(found, Culprit) and found.op != "ReadVariableOp":
            return NoCulprit("nothing was seen to read what differs first before the step makes something else wrong")
        if isinstance(found, Culprit) or not found.earlier:
            return found
        wrong, statistics = [], False
    return found


def _by_hand(
    program: Program, case: StrategyCase, step: int, *, last: bool, reference: Reference, **options: Any
) -> Culprit | NoCulprit:
    """On a mesh, where no Python can be called in a graph: the line outside of graphs."""
    about = {"threads": reference.threads, "reports": bool(reference.trace.clients[0].steps), **options}
    try:
        seen = watch_by_hand(program, case, step=step, last=last, standing=reference.stands, **about)
        return made_by_hand(*seen, (case.replicas, case.model))
    except LockstepError as error:
        return NoCulprit(f"the program could not be watched: {str(error).splitlines()[0]}")


def _in_runs(watched: Callable[..., WatchedRuns], wrong: list[WrongReport], **about: bool) -> Culprit | NoCulprit:
    """What one run of the step shows, or several, where it has more operations than are looked at in one."""
    sight = watched()
    for _ in range(_RUNS):
        try:
            asked = WatchRequest.none(sight.clients, sight.noisy)
            found = find_culprit(sight.clients, sight.reference, sight.noisy, wrong, asked=asked, **about)
            if not asked:
                return found
            chosen = next_look(sight.clients, sight.reference, sight.noisy, asked, LOOKS)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with this, the verdict stands
            warnings.warn(f"looking for a culprit failed: {error!r}", RuntimeWarning, stacklevel=3)
            return NoCulprit(f"looking for it failed: {type(error).__name__}")
        again = watched(again=(sight, chosen))
        try:
            sight = sight.joined(again, chosen)
        except ValueError as error:
            return NoCulprit(f"not all of the step fits into one run, and {error}")
    return NoCulprit(f"the step has more operations than can be looked at in {_RUNS} runs of it")


def _hidden(case: StrategyCase) -> str | None:
    """Why nothing can be seen under a strategy, or None."""
    if case.accelerator == "tpu":
        return "what runs on a TPU is compiled, and its operations cannot be watched"
    return None


def _wrong(verdict: Verdict, run: RunTrace, step: int | None) -> Iterator[WrongReport]:
    """What the first client reported at a step and was wrong, but for variables, whose assignments are looked at."""
    client = run.clients[0]
    # What `strategy.run` gives to a client with one replica is a part too, and no PerReplica.
    apart = client.header.clients > 1 and client.header.local_replicas == 1
    record = client.final if step is None else next((each for each in client.steps if each.index == step), None)
    yield from _evaluated(verdict, run)
    findings = [finding for finding in verdict.findings if finding.step == step]
    only = all(finding.observable == "metrics" for finding in findings)  # else they follow from what else is wrong
    for mean in filter(None, (_mean(finding, run) for finding in findings if only)):
        yield WrongReport(Array.of(mean.parts[0].numpy()[0]), whole=False)
    named = {(finding.observable, finding.variable) for finding in findings}
    seen = next((each.loss for each in client.seen if each.index == step), None) if record is None else None
    if seen is not None and ("loss", None) in named:
        yield from map(WrongReport, seen.parts[:1])  # as Keras's fit has told it
    for observable in {observable for observable, _ in named if observable in OBSERVABLES}:
        for name, item in (items(record, observable) or {}).items():
            if isinstance(item, Value) and ((observable, name) in named or (observable, None) in named):
                yield from (WrongReport(part, whole=not (item.per_replica or apart)) for part in item.parts[:1])


def _evaluated(verdict: Verdict, run: RunTrace) -> Iterator[WrongReport]:
    """What evaluations have given the first client after a step, of those that are wrong; some of them may be right."""
    first = verdict.first_divergence
    if first is None or first.observable not in (EVALUATION, "metrics"):
        return  # what an evaluation gives may follow from what is wrong before
    wrong = {(each.step, each.variable) for each in verdict.findings if each.observable == EVALUATION}
    for call in run.clients[0].evaluated:
        for value in call.values:
            if not call.trains and (call.after, called(call.name, value.name)) in wrong:
                yield from map(WrongReport, value.parts[:1])
