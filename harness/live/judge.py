"""Judges the steps that a job has left as evidence, on this machine and at any time, while it trains or afterwards.

Some steps of a training are a short training: each is set to what it began with, given what it was given, and draws
what it drew. So what verifies a run judges them, a few at a time. What no single step tells is not asked: whether each
example comes once, and whether the next step begins where the one before ended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.attempts import JudgedAttempt, judged_by
from harness.errors import Abstained
from harness.evidence.deposit import JUDGED, DepositJob, Training, digest_of, trainings
from harness.evidence.parts import TRACES
from harness.evidence.steps import EvidenceReader, EvidenceWriter, PlaceValue, StepEvidence, evidence_folder, renumbered
from harness.evidence.trace import Counters, Seen
from harness.evidence.writing import TraceWriter
from harness.judging.verdict import Verdict
from harness.live.findings import QUESTIONS, StepFinding, StepJudged, found_by
from harness.live.state import Divergence, begun_apart, divergences, replicas_of
from harness.request import VerifyRequest
from harness.running.reference import reference_runs
from harness.running.script_checks import ready
from harness.subject.program import Program
from harness.subject.script import Script
from harness.subject.strategies import strategy_case
from simulator import LockstepError, RunFailed, UsageError
from simulator.machines.local.scratch import scratch

if TYPE_CHECKING:
    import numpy as np

    _Gradient = np.ndarray[Any, Any]

__all__ = ["Judge", "outlier"]

_TOGETHER = 8
"""Steps that are judged by one process, which takes seconds to begin."""
_LARGE_BYTES, _LARGE_TOGETHER = 16 << 20, 2
"""Of large steps fewer: of them `harness.recording.witness` keeps the variables after steps 1 and 2 of a process."""
_SEED = 20
_OF_ONE_STEP = ("variables_match_reference", *QUESTIONS)
"""Laws that a step answers which is taken out of its training."""
_APART = "what it computes is not judged, since its replicas began with different copies"


class Judge:
    """Judges the steps of a deposit; what it has judged stays so, whoever asks again.

    Args:
        deposit: where a job leaves its evidence.
        command: what starts the script here, if that is elsewhere than where the job ran.
        timeout: seconds for each run of the script.
    """

    def __init__(self, deposit: Path, command: Sequence[str] = (), timeout: float = 600.0) -> None:
        self._deposit = deposit
        self._command = command
        self._timeout = timeout
        self._file = deposit / JUDGED

    @property
    def judged(self) -> list[StepJudged]:
        """All that have been, by this judge or an earlier one."""
        lines = self._file.read_bytes().splitlines() if self._file.exists() else []
        found = []
        for line in lines:
            try:
                found.append(msgspec.json.decode(line, type=StepJudged))
            except msgspec.DecodeError:  # a judge was killed while it wrote it
                continue
        return found

    def notes(self) -> Iterator[str]:
        """What is not here as it was where the job ran."""
        for training in trainings(self._deposit):
            job = training.job
            script = self._script(training, 1).path
            if job.digest and digest_of(script) != job.digest:
                yield f"{script} is not the file that the job ran"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come, since the job has come to its end."""
        return all(training.is_over for training in trainings(self._deposit)[-1:])

    def judge(self) -> Iterator[StepJudged]:
        """Judge what is there and has not been judged, the oldest first.

        Raises:
            UsageError: the program is not here.
            LockstepError: this machine cannot run it.
        """
        known = {(each.training, each.step, each.by_digest) for each in self.judged}
        for training in trainings(self._deposit):
            diverged = list(divergences(training))
            for each in self._by_digests(training, diverged):
                if (training.number, each.step, True) not in known:
                    self._note(each)
                    yield each
            pending = [step for step in training.steps if (training.number, step, False) not in known]
            while pending:
                size = self._together(training, pending[0])
                steps, pending = pending[:size], pending[size:]
                for each in self._judge(training, steps, diverged):
                    self._note(each)
                    yield each

    def _by_digests(self, training: Training, diverged: Sequence[Divergence]) -> Iterator[StepJudged]:
        """Say where copies came to differ, as soon as the state of a later step tells which."""
        for each in diverged:
            later = next((step for step in training.steps if each.is_before(step)), None)
            if later is None and not training.is_over:
                continue
            findings = [] if later is None else begun_apart(training, later, each.replica)
            yield StepJudged(
                training.number,
                each.step,
                "inconsistent",
                findings=tuple(findings) or (each.finding,),
                by_digest=True,
            )

    def _note(self, step: StepJudged) -> None:
        with self._file.open("ab+") as file:
            # A judge that was killed may have left half a line.
            file.seek(max(0, file.tell() - 1))
            begun = file.read(1) not in (b"", b"\n")
            file.write(b"\n" * begun + msgspec.json.encode(step) + b"\n")

    def _together(self, training: Training, step: int) -> int:
        return _LARGE_TOGETHER if training.size(step) > _LARGE_BYTES else _TOGETHER

    def _judge(self, training: Training, steps: Sequence[int], diverged: Sequence[Divergence]) -> Iterator[StepJudged]:
        """Judge some steps together; those by themselves with which something is wrong, and the others again."""
        if not steps:
            return
        began, apart = time.monotonic(), dict[int, str]()
        findings: tuple[StepFinding, ...] = ()
        try:
            if findings := self._begun_apart(training, steps, diverged):
                verdict = Verdict("", training.job.header.strategy, (), abstained=_APART)
            else:
                verdict, apart = self._verdict(training, steps)
        except UsageError:
            raise
        except (Abstained, OSError, ValueError) as error:  # room has ended for it, or its file is damaged
            verdict = Verdict("", training.job.header.strategy, (), abstained=str(error))
        except RunFailed as failure:
            why = f"the script fails as its own reference: {str(failure).splitlines()[0]}"
            verdict = Verdict("", training.job.header.strategy, (), abstained=why)
        if verdict.outcome != "consistent" and len(steps) > 1:
            wrong = {steps[each.step - 1] for each in verdict.findings if each.step is not None} or set(steps)
            yield from self._judge(training, [step for step in steps if step not in wrong], diverged)
            for step in sorted(wrong):
                yield from self._judge(training, [step], diverged)
            return
        seconds = (time.monotonic() - began) / len(steps)
        if findings:
            yield StepJudged(training.number, steps[0], "inconsistent", None, findings, _APART, round(seconds, 3))
            return
        findings = tuple(map(found_by, verdict.findings))
        if any(each.question == "computation" for each in findings):
            findings = (*findings, *self._contributor(training, steps[0]))
        unknown = None if verdict.outcome != "abstained" else verdict.why_abstained or verdict.nothing_compared
        for index, step in enumerate(steps, 1):
            outcome = "abstained" if index in apart and not findings else verdict.outcome
            said = apart.get(index, unknown)
            yield StepJudged(training.number, step, outcome, verdict.worst_ratio, findings, said, round(seconds, 3))

    def _begun_apart(
        self, training: Training, steps: Sequence[int], diverged: Sequence[Divergence]
    ) -> tuple[StepFinding, ...]:
        """The variables whose copies differ when one of these steps begins."""
        found: list[StepFinding] = []
        for step in steps:
            known = [each.replica for each in diverged if each.is_before(step)]
            found += begun_apart(training, step, known[-1] if known else None)
        return tuple(found)

    def _contributor(self, training: Training, step: int) -> Iterator[StepFinding]:
        """The replica that has contributed what it should not have, if it is one of several."""
        names = [name for job in training.folders.values() for name in replicas_of(job)]

        def should(replica: str) -> Mapping[str, Any]:
            with scratch("judged") as directory:
                attempt = self._attempt(training, 1, directory)
                _compose(training, [step], directory, only=names.index(replica))
                told = dataclasses.replace(attempt, program=attempt.program.natively(1))
                with reference_runs(told.program, directory, told.case.name, told.asked.venue(told.case)) as runs:
                    (seen,) = runs.plain().trace.clients[0].seen
                return next(iter(_contributed([(training.job, seen)]).values()), {})

        seen = [(job, _seen_of(reader, step)) for job, reader in training.readers()]
        with contextlib.suppress(LockstepError):  # then nobody knows
            if (found := outlier(_contributed(seen), should)) is not None:
                replica, name = found
                text = f"_contributed another gradient of {name} than one device computes from the same rows"
                yield StepFinding("computation", "contributions", text, replica=replica)

    def _attempt(self, training: Training, steps: int, directory: Path) -> JudgedAttempt:
        case = strategy_case(training.job.header.strategy)
        program = ready(Program.of_script(self._script(training, steps)), case, None, prove=False)
        variables = (*training.job.variables.items(), *program.variables)
        program = dataclasses.replace(program, variables=variables)
        asked = VerifyRequest("derived", False, False, False, _SEED, self._timeout, stream=False, keep=False)
        return JudgedAttempt(program, case, None, directory, asked, time.monotonic())

    def _verdict(self, training: Training, steps: Sequence[int]) -> tuple[Verdict, dict[int, str]]:
        """What is found of steps, and why single ones cannot be judged, by their place among these from 1."""
        with scratch("judged") as directory:
            attempt = self._attempt(training, len(steps), directory)
            _compose(training, steps, directory)
            verdict, reference = judged_by(attempt, {})
        of_one = tuple(each for each in verdict.judgements if each.law in _OF_ONE_STEP)
        apart = {seen.index: seen.apart for seen in reference.trace.clients[0].seen if seen.apart is not None}
        return dataclasses.replace(verdict, judgements=of_one), apart

    def _script(self, training: Training, first: int) -> Script:
        """What the job ran, as it is here.

        Raises:
            UsageError: it is not here.
        """
        if self._command:
            return Script.of(self._command, first)
        job = training.job
        if not Path(job.script).is_file():
            raise UsageError(
                f"the job ran {job.script or 'no script'}, which is not here; give the command that starts it here: "
                "lockstep judge DIR -- python train.py"
            )
        return Script(job.script, job.args, job.cwd, first=first)


# Puts steps of a training together as those of one short run, which can be judged as any run is.


def _compose(training: Training, steps: Sequence[int], directory: Path, *, only: int | None = None) -> None:
    """Leave a run whose steps, numbered from 1, are these.

    Args:
        training: whose steps they are.
        steps: their numbers there.
        directory: of the run.
        only: the number of the replica, over all tasks, that then is the only one of which the steps are.

    Raises:
        Abstained: one of them is not there any more.
        OSError: it is removed in this moment.
        ValueError: it is damaged.
    """
    traces = directory / TRACES
    traces.mkdir()
    for job, reader in training.readers():
        trace = traces / f"{job.header.task.replace(':', '-')}.trace"
        writer, store = TraceWriter(trace), EvidenceWriter(evidence_folder(trace))
        writer.write(job.header)
        for index, number in enumerate(steps, 1):
            step = _there(reader, number)
            writer.write(msgspec.structs.replace(_seen(step), index=index))
            store.begin(index)
            store.publish(renumbered(reader, step if only is None else _only_of(step, only), index, store.put))
        writer.write(Counters())
        writer.close()


def _seen_of(reader: EvidenceReader, number: int) -> Seen:
    """What was seen of a step in its process; raises as of `_compose`."""
    return _seen(_there(reader, number))


def _there(reader: EvidenceReader, number: int) -> StepEvidence:
    if (step := reader.step(number)) is None:
        raise Abstained(f"step {number} was removed before it was judged")
    return step


def _seen(step: StepEvidence) -> Seen:
    try:
        return msgspec.msgpack.decode(step.seen, type=Seen)
    except msgspec.MsgspecError as error:
        raise ValueError(f"step {step.index} is damaged: {error}") from error


def _only_of(step: StepEvidence, replica: int) -> StepEvidence:
    """A step as one replica had it, as if there were no other."""

    def own(passed: Sequence[PlaceValue]) -> tuple[PlaceValue, ...]:
        return tuple(msgspec.structs.replace(each, replica=0) for each in passed if each.replica == replica)

    return msgspec.structs.replace(step, passed=own(step.passed), evaluations=())


# Whose fault a wrong step is: each replica's part of it is computed again, from that replica's own rows and draws.
#
# A replica contributes gradients. One replica that has what a replica of the run had computes what that should have
# contributed, but for a factor, since a script divides by the number of replicas where it likes. The factor is the
# same for all of them.


_FACTOR_APART = 100.0
"""So many times farther than any other replica is one from what it should contribute."""
_ROUNDING = 1e-4
"""Of its largest element a gradient may be so far from another computation of it."""


def _contributed(jobs: Sequence[tuple[DepositJob, Seen]]) -> dict[str, dict[str, _Gradient]]:
    """The gradients of each replica, by its name."""
    found: dict[str, dict[str, _Gradient]] = {}
    for job, seen in jobs:
        for local, replica in enumerate(replicas_of(job)):
            parts = {value.name: value.parts for value in seen.gradients}
            found[replica] = {name: part[local].numpy() for name, part in parts.items() if local < len(part)}
    return found


def outlier(
    found: Mapping[str, Mapping[str, _Gradient]], should: Callable[[str], Mapping[str, _Gradient]]
) -> tuple[str, str] | None:
    """The replica that has contributed what it should not have, and to the gradient of which variable.

    Args:
        found: as of `_contributed`.
        should: computes what a replica should have contributed, but for a factor.
    """
    far = {replica: _farthest(gradients, should(replica)) for replica, gradients in found.items()}
    if len(far) < 2:
        return None
    (replica, (most, name)), (_, (second, _)) = sorted(far.items(), key=lambda each: each[1][0], reverse=True)[:2]
    return (replica, name) if most > _ROUNDING and not most <= _FACTOR_APART * second else None


def _farthest(found: Mapping[str, _Gradient], computed: Mapping[str, _Gradient]) -> tuple[float, str]:
    """How far that variable's gradient is off which is the farthest, of its largest element, and the variable."""
    import numpy as np

    pairs = {
        name: (found[name].astype(np.float64), computed[name].astype(np.float64))
        for name in found
        if name in computed and found[name].shape == computed[name].shape and computed[name].size
    }
    with np.errstate(all="ignore"):
        ratios = [
            (one.reshape(-1) / other.reshape(-1))[np.abs(other.reshape(-1)) > _ROUNDING * np.abs(other).max()]
            for one, other in pairs.values()
        ]
        factor = np.nanmedian(np.concatenate(ratios)) if ratios else 1.0
        far = {
            name: float(np.abs(one - factor * other).max() / np.abs(factor * other).max())
            for name, (one, other) in pairs.items()
            if other.any()
        }
    return max(((each if np.isfinite(each) else math.inf, name) for name, each in far.items()), default=(0.0, ""))
