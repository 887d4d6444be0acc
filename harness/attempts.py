"""A run, and the runs of its reference by which it may be judged.

A step starts from a state, is given examples and draws random numbers; the run leaves all three as evidence. Another
process of the same program, with one replica, is set to the state, given the examples, and yields the draws. What
differs then was computed otherwise. Nothing accumulates, no seed is needed, and no step depends on the ones before.

What a coordinator's workers compute leaves no evidence. Its reference follows nothing, so that two equal runs of it
have to be equal before anything is said.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from harness.errors import Abstained
from harness.evidence.parts import TRACES, read_parts
from harness.evidence.reference import Reference
from harness.evidence.stand_ins import DIVIDES, StandIn
from harness.evidence.steps import FOR_ALL, OWN_DRAWS, RunEvidence, Standing, segment_of
from harness.evidence.trace import RunTrace
from harness.judgement import judge, task_summaries
from harness.judging.assumptions import without_judgement
from harness.judging.closures_collected import updates_apart
from harness.judging.closures_script import SingleWorkerScript
from harness.judging.conditions import OWN
from harness.judging.culprit.protocol import Looked
from harness.judging.explain.stale_reads import VARIABLES, stale_reads
from harness.judging.left_alone import is_in_question, made_up_for
from harness.judging.more_runs import is_open, is_plain
from harness.judging.native_scale import (
    SCALED,
    NativeRun,
    adds_up,
    all_move_otherwise,
    factor_of,
    is_by_hand,
    is_whole,
    rows_for_own,
    times_of,
)
from harness.judging.per_replica import (
    OF_VARIABLES,
    UNSEEN_DRAWS,
    differs_by_numbers,
    reported,
    unfollowed,
)
from harness.judging.verdict import Verdict
from harness.phases import phase
from harness.recording.scripts import NO_STRATEGY
from harness.request import VerifyRequest
from harness.running.disturbance import Disturbance
from harness.running.interrupt import Interrupting, run_twice
from harness.running.live_reference import LiveReference, live_reference
from harness.running.observe import run_once
from harness.running.reference import NOISY_RUNS, PAIR, ReferenceRuns, Venue, failure_on_one_device, reference_runs
from harness.running.script_checks import check_whole, own_trace
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase
from simulator import LockstepError, RunFailed, RunResult, UsageError
from simulator.machines.local.scratch import scratch

Tasks = dict[str, dict[str, Any]]

_TWICE = Standing(copies=2)

_ONE_STEP = "one step on the examples of all replicas"
_NATIVELY = "each step is {}, computed by the script as it is on one device, with one replica"
_NO_EVIDENCE = (
    "no step left evidence that could be followed: no call that runs replicas was seen to take gradients, or the disk "
    "under --out has no room for it"
)


def leaves_evidence(case: StrategyCase) -> bool:
    """Whether steps under a strategy can be kept as evidence: none of a TPU, nor of workers that share no files."""
    return not case.family.on_tpu and not (case.ps and case.over is not None)


@dataclasses.dataclass(frozen=True)
class JudgedAttempt:
    """A run to be judged.

    Attributes:
        program: what is run.
        case: the strategy.
        changes: what disturbs it.
        directory: where it leaves what it has recorded, and the evidence of its steps.
        asked: the rest.
        began: from when on the verdict counts its seconds, on the monotonic clock.
    """

    program: Program
    case: StrategyCase
    changes: Interrupting | Disturbance | None
    directory: Path
    asked: VerifyRequest
    began: float

    @contextlib.contextmanager
    def followed(self) -> Iterator[LiveReference | None]:
        """What may follow the run while it goes on; None where that has to wait for the run's end."""
        venue = self.asked.venue(self.case)
        apart = venue.hardware != "cpu" or venue.python is not None or self.case.over is not None or self.case.ps
        if apart or self.changes is not None or not self._leaves_evidence:
            yield None
            return
        of: dict[str, Any] = {**self.asked.of_reference, "noisy": venue.noisy}
        with live_reference(self.program, self.case, self.directory, **of) as live:
            yield live

    def run(self, live: LiveReference | None = None) -> RunResult:
        """Run it once, followed by what may follow it.

        Raises:
            NothingObserved: the program reports nothing.
            RunFailed: a task crashed, hung or vanished; of one that fails on one device too, that one.
            UsageError: a script builds no strategy of the kind that was asked for.
        """
        asked, keeps = self.asked, self._leaves_evidence
        phase("running")
        try:
            if isinstance(self.changes, Interrupting):
                return run_twice(self.program, self.case, self.changes, self.directory, **asked.of_part, keeps=keeps)
            told: dict[str, Any] = {**asked.of_run, "disturbance": self.changes, "keeps": keeps}
            if live is None:
                return run_once(self.program, self.case, self.directory, **told)
            try:
                result = run_once(self.program, self.case, self.directory, **told, begins=live.begin)
            except BaseException:
                live.give_up()
                raise
            live.end()
            return result
        except RunFailed as failure:
            if failure.root_cause.kind == NO_STRATEGY:
                raise UsageError(failure.root_cause.message) from None
            undisturbed = self.changes is None and self.program.script is None
            one = self.case.family.reference
            if undisturbed and (alike := failure_on_one_device(self.program, failure, one, **asked.of_reference)):
                raise alike from failure
            raise

    @property
    def _leaves_evidence(self) -> bool:
        later = self.changes.resume_case if isinstance(self.changes, Interrupting) else self.case
        return leaves_evidence(self.case) and leaves_evidence(later)

    @property
    def evidence(self) -> RunEvidence:
        """That of the processes that were not killed."""
        return RunEvidence([segment_of(self.directory / TRACES)])

    def judged(self, reference: Reference, tasks: Tasks, *, diagnose: bool = False) -> Verdict:
        """The verdict by a reference; `tasks` as of `Verdict`, `diagnose` as of `harness.judgement.judge`."""
        faults = self.changes.to_json(self.case.topology) if isinstance(self.changes, Disturbance) else None
        return judge(
            read_parts(self.directory),
            reference,
            program=self.program.name,
            tasks=tasks,
            seconds=time.monotonic() - self.began,
            faults=faults,
            forced=self.asked.forced,
            diagnose=diagnose,
        )

    def by_runs(self, runs: ReferenceRuns, tasks: Tasks, of: str | None = None) -> tuple[Verdict, Reference]:
        """The verdict by these runs, with as much noise as it takes, and by what it was made.

        Args:
            runs: of the reference.
            tasks: as of `Verdict`.
            of: the law for which noise is made; None for all of them.
        """

        def asked(verdict: Verdict) -> Verdict:
            laws = tuple(law for law in verdict.judgements if of is None or law.law == of)
            return dataclasses.replace(verdict, judgements=laws)

        def judged(reference: Reference) -> tuple[Verdict, Reference]:
            reference = dataclasses.replace(reference, tier=self.asked.tier)
            return self.judged(reference, tasks), reference

        phase("following the run with one replica" if runs.follow else "running it on one device")
        derived = self.asked.derived
        verdict, reference = judged(runs.plain(derived=derived and of is None))
        check_whole(self.program, reference.trace, self.changes)
        for noisy in () if not derived else NOISY_RUNS if runs.follow else [PAIR]:
            if not is_open(asked(verdict)) or (reference.perturbed and is_plain(asked(verdict))):
                break
            phase("following it with noise, for what rounding does")
            verdict, reference = judged(runs.with_noise(noisy))
        if is_open(verdict) and not runs.follow:
            most = 0 if not derived else PAIR if is_plain(verdict) else NOISY_RUNS[-1]
            phase("running it again on one device, for whether it is reproducible")
            verdict, reference = judged(runs.with_noise(most, sure=True))
        return verdict, reference

    def by(self, venue: Venue, tasks: Tasks, *, of: str | None = None, **parts: Any) -> tuple[Verdict, Reference]:
        """The verdict by runs that are made there; `of` as of `by_runs`, and `parts` as of `reference_runs`."""
        with reference_runs(self.program, self.directory, self.case.name, venue, **parts) as runs:
            return self.by_runs(runs, tasks, of)

    def by_one_replica(
        self, tasks: Tasks, *, beside: bool = False, live: LiveReference | None = None
    ) -> tuple[Verdict, Reference]:
        """The verdict by one replica that has what all replicas of the run had.

        Args:
            tasks: as of `Verdict`.
            beside: as of `VerifyRequest.venue`.
            live: has followed the run while it went on.
        """
        venue = self.asked.venue(self.case, beside=beside)
        if self.program.script is not None and self._leaves_evidence and not self.evidence.is_there:
            raise Abstained(_NO_EVIDENCE)
        try:
            verdict, reference = self.by(venue, tasks, live=live)
            return self._unless_drawn(verdict, reference), reference
        except RunFailed as error:
            # It may not compute with what the run had, such as a batch of another size. Of a script nobody knows.
            if self.program.script is not None and (found := self._by_script_alone(venue, tasks)) is not None:
                return found
            if self.program.script is not None or not self.evidence.is_there:
                raise
            verdict, reference = self.by(venue, tasks, follows=False)
            why = unfollowed(verdict, self.evidence, str(error).partition("\n")[0])
        return (verdict if why is None else without_judgement(verdict, why)), reference

    def _unless_drawn(self, verdict: Verdict, reference: Reference) -> Verdict:
        """The verdict, taken back where no step has left evidence, so that one device draws numbers of its own."""
        # On a mesh each device draws the whole by its seeds, as one device does.
        unseen = self._leaves_evidence and not self.case.family.on_mesh and not self.evidence.is_there
        if reference.follows or not unseen or self.changes is not None or not differs_by_numbers(verdict):
            return verdict
        phase("running it on one device with other seeds, for whether it draws")
        with contextlib.suppress(LockstepError):  # then nothing more is known
            if reported(self.again(seed=self.asked.seed + 1)) != reported(reference.trace):
                return without_judgement(verdict, UNSEEN_DRAWS)
        return verdict

    def _by_script_alone(self, venue: Venue, tasks: Tasks) -> tuple[Verdict, Reference] | None:
        """The verdict by a script that is told of one replica, where it fails if it is told of all; None unless right.

        It may draw as many numbers as the batch of one replica has. What differs may be meant, such as a rate.
        """
        steps = max((len(each.seen) for each in self.first.clients), default=0)
        if self.changes is not None or not steps:
            return None
        with contextlib.suppress(LockstepError):  # then nothing more is known
            told = dataclasses.replace(self, program=self.program.natively(steps))
            verdict, reference = told.by(venue, tasks)
            if verdict.outcome == "consistent":
                by = dataclasses.replace(reference, native=True)
                return dataclasses.replace(verdict, notes=(*verdict.notes, _NATIVELY.format(_ONE_STEP))), by
        return None

    def by_wholes(self, tasks: Tasks, *, common: bool = False) -> Verdict:
        """The verdict by as many replicas as the run has, each of which stands for a whole; see `Standing`."""
        standing = Standing(self.case.replicas, common=common)
        venue = dataclasses.replace(self.asked.venue(self.case), standing=standing)
        return self.by(venue, tasks, of=OF_VARIABLES)[0]

    def by_replicas(self) -> tuple[Verdict, Reference]:
        """The verdict by as many replicas as the run has, which compute as those did; on the device of the run."""
        venue = dataclasses.replace(self.asked, reference="device").venue(self.case)
        standing = Standing(self.case.replicas, repeats=False, averages=False)
        return self.by(dataclasses.replace(venue, standing=standing), {}, of=OF_VARIABLES)

    def by_ranks(self, tasks: Tasks) -> tuple[Verdict, Reference]:
        """The verdict by one replica to which an order of rows gives each of them a rank among those of all."""
        return self.by(dataclasses.replace(self.asked.venue(self.case), standing=Standing(ranks=True)), tasks)

    def by_draws(self, tasks: Tasks, own: Literal["sum", "first"]) -> tuple[Verdict, Reference]:
        """The verdict by one replica that draws what follows from what each replica of the run drew for itself."""
        return self.by(dataclasses.replace(self.asked.venue(self.case), standing=Standing(own=own)), tasks)

    def of_tensorflow(self, verdict: Verdict) -> Verdict:
        """The verdict on a run on a mesh; where TensorFlow is to blame and not the program, that says so.

        Args:
            verdict: that the run is inconsistent.
        """
        told = dataclasses.replace(self.program, variables=(*self.program.variables, *VARIABLES))
        phase("running it without TensorFlow's combined all-reduces")
        with scratch("uncombined") as place, contextlib.suppress(LockstepError):  # then nothing more is known
            cured = dataclasses.replace(self, program=told, directory=place)
            if cured.by_one_replica(task_summaries(cured.run()))[0].consistent:
                looked = Looked(None, "the program is right, and no line of it makes this", 0.0)
                return dataclasses.replace(verdict, explanation=stale_reads(), closest=None).seen(looked)
        return verdict

    def drawn_apart(self) -> RunTrace:
        """What one device is given and leaves another time: with other seeds, and on another day."""
        return self.again(beside=self.asked.python is not None, apart=True)

    def made_up_for(self, verdict: Verdict, reference: Reference) -> str | None:
        """Why a verdict is not to be believed: one device that follows nothing trains what the run has trained."""
        if not is_in_question(verdict, self.first):
            return None
        venue, told = self.asked.venue(self.case), reference.trace.clients[0].counters.stand_ins
        programs = [self.program]
        if sizes := {each.where: 1 for each in told if each.trust == "size"}:  # which may divide what was added up
            programs.append(self.program.assuming(sizes))
        for program in programs:
            with reference_runs(program, self.directory, self.case.name, venue, follows=False) as runs:
                why = made_up_for(verdict, self.first, reference.trace, runs.plain().trace, self.case.replicas)
            if why is not None:
                return why
        return None

    def again(self, *, beside: bool = False, **otherwise: Any) -> RunTrace:
        """What one device leaves that follows the run once more; `beside` and the rest as of a venue."""
        venue = dataclasses.replace(self.asked.venue(self.case, beside=beside), **otherwise)
        with reference_runs(self.program, self.directory, self.case.name, venue) as runs:
            return runs.plain().trace

    def natively(self, verdict: Verdict, reference: Reference) -> tuple[NativeRun, Reference]:
        """What is known from a script as it is on one device, told of one replica, and by what a verdict was made.

        Args:
            verdict: by one replica that is told of all replicas of the run.
            reference: that was told so.
        """
        run = self.first
        if reference.native:
            return NativeRun(1.0), reference
        if not reference.trace.clients[0].counters.stand_ins:  # then it is the reference that computes so
            return NativeRun(times_of(run, reference.trace, self.case.replicas)), reference
        if not self._leaves_evidence:
            return NativeRun(), reference
        with contextlib.suppress(LockstepError):  # then nothing is known
            known = verdict.outcome == "consistent" or is_by_hand(run)
            factor = self._factor(run, reference.trace) if known else None
            if factor is not None and (self.changes is not None or is_whole(factor)):
                told = reference.trace.clients[0].counters.stand_ins
                if abs(factor - self.case.replicas) <= SCALED and self._divides_sum(run, verdict, told):
                    factor = 1.0
                differs = abs(factor - 1.0) <= SCALED and any(each.trust == "size" for each in told)
                differs = differs and self._natively_judged(run, verdict) == "inconsistent"
                return NativeRun(factor, differs=differs), reference
            if self.changes is None:  # a number of rows in one step may be what is meant, such as those of a mask
                return self._as_on_one_device(run, verdict, reference)
        return NativeRun(), reference

    def by_one_worker(self) -> bool:
        """Whether a script with a coordinator computes what the run did when it is told of a single worker."""
        with contextlib.suppress(LockstepError):  # then nothing is known
            told = dataclasses.replace(self, program=self.program.with_one_worker())
            return told.by_one_replica({})[0].outcome == "consistent"
        return False

    def alone(self) -> SingleWorkerScript:
        """What a script with a coordinator leaves with a single worker."""
        assert self.program.script is not None
        venue, workers, run = self.asked.venue(self.case), self.program.script.workers, self.first
        reads = own_trace(self.program.with_one_worker(), venue)
        repeated = own_trace(self.program.with_one_worker(workers), venue) if updates_apart(run) else None
        with contextlib.suppress(LockstepError):
            told = self.program.with_one_worker()
            with reference_runs(told, self.directory, self.case.name, venue, first=True) as runs:
                return SingleWorkerScript(reads, repeated, runs.plain().trace)
        return SingleWorkerScript(reads, repeated)

    @property
    def first(self) -> RunTrace:
        """What the clients have left of the run, or of its first part."""
        parts = read_parts(self.directory)
        return parts.earlier[0].trace if parts.earlier else parts.last

    def _factor(self, run: RunTrace, alike: RunTrace) -> float | None:
        """By how much replicas contribute more than they should where they first do; `alike` as of `factor_of`.

        It is known where the script has, as on one device, a batch of as many examples as the first replica had, or as
        all had together; of another batch where it is known how gradients grow with their examples.
        """
        told, replicas = self.program.natively(1), self.case.replicas

        def native(standing: Standing) -> RunTrace:
            venue = dataclasses.replace(self.asked.venue(self.case), standing=standing)
            with reference_runs(told, self.directory, self.case.name, venue, first=True) as runs:
                return runs.plain().trace

        first = native(Standing(repeats=False))
        if rows_for_own(first) == 1.0 and not is_by_hand(run):
            return factor_of(run, first, replicas, alike, first=True)
        every = native(FOR_ALL)
        factor, rows = factor_of(run, every, replicas, alike), rows_for_own(every)
        if factor is None and is_by_hand(run):  # what is moved has the noise in it that each replica draws for itself
            drawn = (native(Standing(own=own)) for own in OWN_DRAWS)
            factor = next((found for each in drawn if (found := factor_of(run, each, replicas)) is not None), None)
        if rows == 1.0 or factor is None or rows is None:
            return factor if rows == 1.0 else None
        times = times_of(native(_TWICE), every, 1)
        if times is None or min(abs(times - 1.0), abs(times - 2.0)) > SCALED:
            return None
        return factor if abs(times - 1.0) <= SCALED else factor * rows  # a mean, or a sum over examples

    def _by_natively(self, run: RunTrace, verdict: Verdict, lines: dict[str, int]) -> tuple[Verdict, Reference]:
        """The verdict by the script as it is on one device, told of a number of replicas at these lines."""
        told = self.program.natively(max(len(each.seen) for each in run.clients)).assuming(lines)
        return dataclasses.replace(self, program=told).by(self.asked.venue(self.case), verdict.tasks)

    def _natively_judged(self, run: RunTrace, verdict: Verdict) -> str | None:
        """The outcome of that on a consistent run; None if it has other examples."""
        if verdict.outcome != "consistent":
            return None
        found = self._by_natively(run, verdict, {})[0]
        same = any(law.law == "rows_whole" and law.status == "held" for law in found.judgements)
        return found.outcome if same else None

    def _divides_sum(self, run: RunTrace, verdict: Verdict, told: Sequence[StandIn]) -> bool:
        """Whether a script divides by its replicas what these add up to, where a clip hides how much steps take: one
        device does its steps, and moves every variable otherwise once it divides by as many. Two lines may do so twice.
        """
        lines = {each.where: self.case.replicas for each in told if each.what.endswith(DIVIDES)}
        same = len(lines) == 1 and self._natively_judged(run, verdict) == "consistent"
        return same and all_move_otherwise(run, self._by_natively(run, verdict, lines)[1].trace)

    def _as_on_one_device(self, run: RunTrace, verdict: Verdict, reference: Reference) -> tuple[NativeRun, Reference]:
        """As `natively`, by all steps.

        A step is what the script computes so where one step on the examples of all replicas gives what the run's step
        gave, or the mean of steps on those of each, where replicas do nothing that is not done to all. A clip hides how
        much each contributes, so that where this is known it has to be its share.
        """
        replicas, venue = self.case.replicas, self.asked.venue(self.case)
        steps = max(len(each.seen) for each in run.clients)
        told = dataclasses.replace(self, program=self.program.natively(steps))
        native, by = told.by(venue, verdict.tasks)
        what, linear = _ONE_STEP, True
        rows_differ = any(law.law == "rows_whole" and law.status == "broken" for law in native.judgements)
        if native.outcome != "consistent" and rows_differ:
            if verdict.outcome == "consistent" and self._is_mean(told, native, by):
                note = "however often one replica has the examples of all, each step is what the run's is"
                return NativeRun(1.0, dataclasses.replace(verdict, notes=(*verdict.notes, note))), reference
            linear = adds_up(run, by.trace, replicas)
            own = any(condition.code == OWN for condition in verdict.conditions)
            if not (own or linear):
                return NativeRun(), reference
            each = dataclasses.replace(venue, standing=Standing(replicas, repeats=False))
            native, by = told.by(each, verdict.tasks)
            wholes = dataclasses.replace(venue, standing=Standing(replicas))
            if rows_for_own(by.trace) != 1.0 and not _match(told.by(wholes, verdict.tasks, of=OF_VARIABLES)[0]):
                return NativeRun(), reference  # it divides by the number of examples that one replica has on one device
            what = "the mean of steps on the examples of each replica"
        factor = factor_of(run, by.trace, replicas)
        linear |= factor is not None  # then what is reduced is what replicas took
        if (factor is None or abs(factor - 1.0) <= SCALED) and native.outcome == "consistent" and linear:
            return NativeRun(factor, dataclasses.replace(native, notes=(*native.notes, _NATIVELY.format(what)))), by
        return NativeRun(factor), reference

    def _is_mean(self, told: JudgedAttempt, native: Verdict, by: Reference) -> bool:
        """Whether steps are the run's, whether one replica has the examples of all once or each of them twice.

        Then the loss is a mean of some kind over all examples, and no number of examples is written into it. Replicas
        that stand each for a whole do not show it where one depends on all, as by synchronized batch statistics.

        Args:
            told: of the script as it is on one device.
            native: its verdict, where one replica has the examples of all.
            by: what made that.
        """
        if not _match(native):
            return False
        twice = dataclasses.replace(self.asked.venue(self.case), standing=_TWICE)
        again, doubled = told.by(twice, native.tasks, of=OF_VARIABLES)
        # Where gradients are clipped, variables would not show that they have grown.
        times = times_of(doubled.trace, by.trace, 1)
        return _match(again) and times is not None and abs(times - 1.0) <= SCALED


def _match(verdict: Verdict) -> bool:
    """Whether variables are those of the reference."""
    return any(law.law == OF_VARIABLES and law.status == "held" for law in verdict.judgements)
