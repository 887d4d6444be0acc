"""Runs a program under a plan of faults, with restarts, and judges what came of it: chaos, heal, demand progress."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.attempts import JudgedAttempt, Tasks, leaves_evidence
from harness.errors import Abstained
from harness.evidence.observed import epoch_ends
from harness.evidence.parts import TRACES
from harness.evidence.reference import Reference
from harness.evidence.saves import JOURNAL
from harness.judgement import task_summaries
from harness.judging.not_finite import not_finite
from harness.request import Tier, VerifyRequest
from harness.run_directory import check_out, opened_run
from harness.running.disturbance import Disturbance
from harness.running.machine_files import check_machines, on_machines, placed_program
from harness.running.observe import check_hardware
from harness.running.reference import PAIR, undisturbed
from harness.running.reference_request import ReferenceRequest
from harness.saved_run import save_run
from harness.search.outcome import PlanOutcome
from harness.search.outputs import own_frames, states_of_margins, states_of_result
from harness.search.situations import RunSituations, shown_by
from harness.search.standstills import SLOWNESS, longest_gap, seconds_lost, standstills
from harness.subject.machines import OnMachines
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase, strategy_case
from simulator import FaultPlan, RunFailed, TaskError
from simulator.faults import all_kinds
from simulator.journal import read_journal
from simulator.units import parse_duration

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in typing from Python 3.11 on

    from harness.report.timeline import Timeline

# What the injector says of a fault that could not be made: a plan that was drawn may ask for what never comes.
_UNFIRED = ("FaultNotFired", "FaultWithoutEffect")
_LATE = "Hang"
_STUCK = (_LATE, "NoProgress")
_SEED = 20


@dataclass(frozen=True)
class Subject:
    """A program under a strategy, ready to be run under plans.

    Attributes:
        program: what trains.
        case: the strategy.
        reference: the undisturbed run on one device, which numbers are held against first. Where they differ a process
            that follows the run decides.
        asked: its seed and tier, and the seconds for a run with all its restarts.
        restarts: restarts that a run may have; by default those that its faults can cause, and three more.
        restart_policy: as of `Cluster`.
        slowness: seconds that a run may stand still beyond what its faults and TensorFlow's timeouts need.
    """

    program: Program
    case: StrategyCase
    reference: Reference
    asked: VerifyRequest
    restarts: int | None = None
    restart_policy: str | None = None
    slowness: float = parse_duration(SLOWNESS, "slowness")

    @property
    def steps(self) -> int:
        """How many steps the reference recorded."""
        return len(self.reference.trace.clients[0].steps)

    @functools.cached_property
    def epoch_ends(self) -> frozenset[int]:
        """The steps of the whole run that end an epoch, where the program says so."""
        return frozenset(epoch_ends(self.reference.trace))

    def run(self, plan: FaultPlan, out: Path | None = None, seconds: float | None = None) -> PlanOutcome:
        """Run the program once under a plan and judge it.

        Args:
            plan: what goes wrong.
            out: keeps traces, logs, the journal and the verdict.
            seconds: that are left for it. A run that needs more is void.
        """
        from harness.report.timeline import timeline_of

        began = time.monotonic()
        watched = msgspec.structs.replace(plan.expand(self.case.topology), points=True)
        disturbance = Disturbance(watched, self.restarts, self.restart_policy)
        disturbance.check(self.case, self.asked.timeout)
        causes: tuple[TaskError, ...] = ()
        found, whole, timeline = PlanOutcome(), True, None
        with opened_run(out) as directory:
            limit = self.asked.timeout if seconds is None else min(seconds, self.asked.timeout)
            asked = dataclasses.replace(self.asked, keep=out is not None, timeout=limit)
            attempt = JudgedAttempt(self.program, self.case, disturbance, directory, asked, began)
            try:
                result = attempt.run()
            except RunFailed as failure:
                causes, result = failure.causes, failure.result
                found = outcome_of_failure(failure)
                if limit < self.asked.timeout and any(cause.kind == _LATE for cause in causes):
                    found = _spent("before this run was done")
                # A plan that was drawn may ask for what never comes, which says nothing of the numbers.
                whole = bool(found) and all(result[task].value is not None for task in self.case.clients)
            tasks = task_summaries(result)
            if whole:
                found = self._judged(attempt, tasks, None if seconds is None else began + seconds)
            struck = tuple(fault.fired for fault in result.faults)
            found = dataclasses.replace(found, struck=struck)
            if (journal := directory / TRACES / JOURNAL).exists():
                events = list(read_journal(journal))
                timeline = timeline_of(events, watched.to_mapping().get("fault", ()))
                shown = shown_by(events, watched, self.epoch_ends)
                states = shown.states.union(found.shown.states, states_of_result(result))
                shown = dataclasses.replace(shown, states=states)
                found = dataclasses.replace(found, shown=shown, gap=longest_gap(timeline))
        if found and timeline is not None and any(struck):
            found = self._in_time(found, timeline, watched, None if seconds is None else began + seconds)
        return _finished(found, tasks, causes, time.monotonic() - began)

    def _judged(self, attempt: JudgedAttempt, tasks: Tasks, deadline: float | None) -> PlanOutcome:
        """What the numbers say of a run that got to its end, if that is known in time."""
        verdict, reference = attempt.judged(self.reference, tasks), self.reference
        if not verdict:
            left = self.asked.timeout if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return _spent("before this run was judged")
            timeout = min(left, self.asked.timeout)
            following = dataclasses.replace(attempt, asked=dataclasses.replace(attempt.asked, timeout=timeout))
            try:
                verdict, reference = following.by_one_replica(tasks)
            except RunFailed as failure:
                if timeout < self.asked.timeout and failure.root_cause.kind == _LATE:
                    return _spent("before this run was judged")
                raise
        if verdict.outcome == "inconsistent":
            verdict = attempt.judged(reference, tasks, diagnose=True)
        if attempt.asked.keep:
            save_run(attempt.directory, verdict, reference)
        shown = RunSituations(states=frozenset(states_of_margins(verdict.judgements)))
        if verdict:
            return PlanOutcome(shown=shown)
        laws = ",".join(each.law for each in verdict.judgements if each.status == "broken")
        code = laws if verdict.explanation is None else verdict.explanation.rule
        return PlanOutcome(symptom="numbers", code=code, text=verdict.text(), shown=shown)

    def _in_time(self, found: PlanOutcome, timeline: Timeline, plan: FaultPlan, deadline: float | None) -> PlanOutcome:
        """The outcome of a run that survived, or the failure that it stood still for too long.

        How long a run stands still without a fault is only asked where that matters, and then at once: the machine may
        have become busy since the search began.
        """
        if seconds_lost(standstills(timeline, plan.faults)) <= self.slowness:
            return found
        seconds = None if deadline is None else deadline - time.monotonic()
        if seconds is not None and seconds <= 0:
            return dataclasses.replace(found, void=_spent("before it was known whether it was slow").void)
        if not (usual := self.run(FaultPlan(), seconds=seconds)):
            return dataclasses.replace(found, void="whether it was slow is not known: its run without a fault failed")
        late = standstills(timeline, plan.faults, usual.gap)
        if (lost := seconds_lost(late)) <= self.slowness:
            return found
        whole = sum(each.end - each.begin for each in late)
        more = f", and {len(late) - 1} more times, {whole:.1f} s in all" if len(late) > 1 else ""
        text = (
            f"no task started, ended, made a step, saved or restored for {late[0]}{more}. Neither the faults nor "
            f"timeouts of TensorFlow explain {lost:.1f} s of that; without a fault no pause was longer than "
            f"{usual.gap:.2g} s"
        )
        return dataclasses.replace(found, symptom="slowness", text=text)


def subject_of(
    program: Callable[..., Any] | str | Program,
    strategy: str | StrategyCase,
    *,
    network: str | None = None,
    tier: Tier = "derived",
    seed: int = _SEED,
    timeout: float = 120.0,
    restarts: int | None = None,
    restart_policy: str | None = None,
    slowness: str = SLOWNESS,
    stream: bool = False,
    **machines: Unpack[OnMachines],
) -> Subject:
    """Run the reference, or take it from the cache, and return what can be run under plans; options as of `verify`.

    Raises:
        UsageError: a program or strategy that does not exist, or a program that reports nothing.
        Abstained: its numbers are not finite, or differ from run to run where nothing can follow it.
        RunFailed: the program fails even undisturbed on one device.
    """
    patience = parse_duration(slowness, "slowness")
    case = strategy_case(strategy, network=network, over=machines)
    check_hardware(case)
    check_machines(case)
    under_test = placed_program(Program.of(program), case, disturbed=True)
    asked = VerifyRequest(
        tier=tier, forced=False, explain=None, prove=None, seed=seed, timeout=timeout, stream=stream, keep=False
    )
    # What leaves no evidence can only be held against this, so that it has to be the same each time.
    wanted = ReferenceRequest(PAIR if asked.derived else 0, sure=not leaves_evidence(case))
    reference = undisturbed(under_test, asked.venue(case), wanted)
    if (unknown := not_finite(reference.trace)) is not None:
        raise Abstained(unknown)
    return Subject(under_test, case, reference, asked, restarts, restart_policy, patience)


def survives(
    program: Callable[..., Any] | str | Program,
    strategy: str | StrategyCase,
    plan: FaultPlan,
    *,
    out: str | Path | None = None,
    **options: Any,
) -> PlanOutcome:
    """Run a program once under a plan of faults, with restarts, and judge its numbers and whether it got to its end.

    The program is `train(strategy, record)` as for `verify`, and one that resumes from `record.directory`.

    Args:
        program: as for `verify`.
        strategy: as for `verify`.
        plan: what goes wrong. A fault of a checkpoint in `record.directory` names that as its directory.
        out: keep traces, logs and the journal in this directory, in place of an earlier run; one that holds something
            else is refused.
        options: `tier`, `seed`, `timeout`, `restarts`, `restart_policy`, `slowness`, `stream`, and of machines what
            `verify` has. Without `restarts` a run has as many as its faults can cause, and three more. It may stand
            still for `slowness` (`10s`) beyond what its faults and TensorFlow's timeouts need.

    Returns:
        An `PlanOutcome`: true if the program survived; `str` of it says what was wrong.

    Raises:
        UsageError: a program, strategy or plan that makes no sense.
        RunFailed: the program fails even undisturbed on one device.
        MachinesUnavailable: a machine cannot be reached, or cannot be used.
    """
    check_out(out)
    subject = subject_of(program, strategy, **options)
    with on_machines(subject.case):
        return subject.run(plan, None if out is None else Path(out))


def _spent(when: str) -> PlanOutcome:
    return PlanOutcome(void=f"the time for the search was spent {when}")


def outcome_of_failure(failure: RunFailed) -> PlanOutcome:
    """What a run that did not end well says of the program.

    Faults that could not be made say nothing, and excuse nothing; an error is what is asked for after a checkpoint was
    damaged.
    """
    own = [cause for cause in failure.causes if cause.task not in ("plan", "network")]
    broken = [cause for cause in failure.causes if cause not in own and cause.kind not in _UNFIRED]
    if own and not any(cause.kind in _STUCK for cause in own) and _may_end(failure):
        return PlanOutcome(text=f"ended with an error, as it may with a damaged checkpoint: {own[0]}")
    if own:
        code = " at ".join((own[0].kind, *own_frames(own[0])[-1:]))
        text = f"the plan healed and restarts were allowed, yet {failure}"
        return PlanOutcome(symptom="liveness", code=code, text=text)
    return PlanOutcome(void=str(broken[0]) if broken else None)


def _may_end(failure: RunFailed) -> bool:
    """Whether a fault has struck after which a run may end with an error."""
    return any(fault.fired and all_kinds()[fault.kind].may_end_run for fault in failure.result.faults)


def _finished(
    found: PlanOutcome, tasks: Mapping[str, Mapping[str, Any]], causes: Sequence[TaskError], seconds: float
) -> PlanOutcome:
    return dataclasses.replace(
        found,
        unfired=tuple(cause.message for cause in causes if cause.task == "plan" and cause.kind in _UNFIRED),
        restarts=max((task["incarnation"] for task in tasks.values()), default=0),
        seconds=seconds,
    )
