"""Judges the steps that a job has left as evidence, on this machine and at any time, while it trains or afterwards.

Some steps of a training are a short training: each is set to what it began with, given what it was given, and draws
what it drew. So what verifies a run judges them, a few at a time. What no single step tells is not asked: whether each
example comes once, and whether the next step begins where the one before ended.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.asked import Asked
from harness.attempts import Attempt, judged_by
from harness.errors import Abstained
from harness.evidence.deposit import JUDGED, Training, digest_of, trainings
from harness.evidence.parts import TRACES
from harness.evidence.steps import EvidenceWriter, evidence_folder, renumbered
from harness.evidence.trace import Counters, Seen
from harness.evidence.writing import TraceWriter
from harness.judging.laws.protocol import Finding
from harness.judging.verdict import Verdict
from harness.running.scripted import ready
from harness.subject.program import Program
from harness.subject.script import Script
from harness.subject.strategies import strategy_case
from simulator import UsageError
from simulator.machines.local.scratch import scratch

__all__ = ["Judge", "StepFinding", "StepJudged"]

_TOGETHER = 8
"""Steps that are judged by one process, which takes seconds to begin."""
_LARGE_BYTES, _LARGE_TOGETHER = 16 << 20, 2
"""Of large steps fewer: of them `harness.recording.witness` keeps the variables after steps 1 and 2 of a process."""
_SEED = 20
_QUESTIONS = {"replicas_agree": "state", "finite": "computation", "draws": "draws"}
_OF_ONE_STEP = ("variables_match_reference", *_QUESTIONS)
"""Laws that a step answers which is taken out of its training."""


class StepFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One way in which a step is wrong: `index`, `observed`, `expected` and `bound` are of its worst element."""

    question: str
    law: str
    text: str
    variable: str | None = None
    task: str | None = None
    index: tuple[int, ...] | None = None
    observed: float | None = None
    expected: float | None = None
    bound: float | None = None
    replica: str | None = None

    @property
    def said(self) -> str:
        """What is wrong, in a line."""
        where = f"{self.variable}{list(self.index or ())}" if self.variable is not None else self.text
        numbers = f" is {self.observed:.7g}, and not {self.expected:.7g} (bound {self.bound:.1g})"
        told = numbers if None not in (self.observed, self.expected, self.bound) else ""
        return f"{where}{told}" + (f" on {self.replica}" if self.replica else "") + f" ({self.law})"


class StepJudged(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of one step: a line of `judged.jsonl`.

    Attributes:
        training: how often the job had been started before.
        step: its number, from 1.
        outcome: as of `Verdict`.
        worst_ratio: the largest error over its bound, of this step and those that were judged with it.
        findings: why it is inconsistent.
        why: it was not judged.
        seconds: that it took to be judged.
    """

    training: int
    step: int
    outcome: str
    worst_ratio: float | None = None
    findings: tuple[StepFinding, ...] = ()
    why: str | None = None
    seconds: float = 0.0


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
        known = {(each.training, each.step) for each in self.judged}
        for training in trainings(self._deposit):
            pending = [step for step in training.steps if (training.number, step) not in known]
            while pending:
                size = self._together(training, pending[0])
                steps, pending = pending[:size], pending[size:]
                for each in self._judge(training, steps):
                    self._note(each)
                    yield each

    def _note(self, step: StepJudged) -> None:
        with self._file.open("ab+") as file:
            # A judge that was killed may have left half a line.
            file.seek(max(0, file.tell() - 1))
            begun = file.read(1) not in (b"", b"\n")
            file.write(b"\n" * begun + msgspec.json.encode(step) + b"\n")

    def _together(self, training: Training, step: int) -> int:
        return _LARGE_TOGETHER if training.size(step) > _LARGE_BYTES else _TOGETHER

    def _judge(self, training: Training, steps: Sequence[int]) -> Iterator[StepJudged]:
        """Judge some steps together, and each by itself if something is wrong with one of them."""
        began, apart = time.monotonic(), dict[int, str]()
        try:
            verdict, apart = self._verdict(training, steps)
        except Abstained as error:
            verdict = Verdict("", training.job.header.strategy, (), abstained=str(error))
        if verdict.outcome != "consistent" and len(steps) > 1:
            for step in steps:
                yield from self._judge(training, [step])
            return
        seconds = (time.monotonic() - began) / len(steps)
        findings = tuple(map(_found, verdict.findings))
        why = None if verdict.outcome != "abstained" else verdict.why_abstained or verdict.nothing_compared
        for index, step in enumerate(steps, 1):
            outcome = "abstained" if index in apart and not findings else verdict.outcome
            said = apart.get(index, why)
            yield StepJudged(training.number, step, outcome, verdict.worst_ratio, findings, said, round(seconds, 3))

    def _verdict(self, training: Training, steps: Sequence[int]) -> tuple[Verdict, dict[int, str]]:
        """What is found of steps, and why single ones cannot be judged, by their place among these from 1."""
        case = strategy_case(training.job.header.strategy)
        program = ready(Program.of_script(self._script(training, len(steps))), case, None, prove=False)
        variables = (*training.job.variables.items(), *program.variables)
        program = dataclasses.replace(program, variables=variables)
        asked = Asked("derived", False, False, False, _SEED, self._timeout, stream=False, keep=False)
        with scratch("judged") as directory:
            _compose(training, steps, directory)
            attempt = Attempt(program, case, None, directory, asked, time.monotonic())
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


def _compose(training: Training, steps: Sequence[int], directory: Path) -> None:
    """Put steps into a directory as those of one run, numbered from 1."""
    traces = directory / TRACES
    traces.mkdir()
    for job, reader in training.readers():
        trace = traces / f"{job.header.task.replace(':', '-')}.trace"
        writer, store = TraceWriter(trace), EvidenceWriter(evidence_folder(trace))
        writer.write(job.header)
        for index, number in enumerate(steps, 1):
            step = reader.step(number)
            if step is None:
                raise Abstained(f"step {number} was removed before it was judged")
            store.begin(index)
            store.publish(renumbered(reader, step, index, store.put))
            seen = msgspec.msgpack.decode(step.seen, type=Seen)
            writer.write(msgspec.structs.replace(seen, index=index))
        writer.write(Counters())
        writer.close()


def _found(finding: Finding) -> StepFinding:
    fields: dict[str, Any] = {name: getattr(finding, name) for name in ("law", "text", "variable", "task", "index")}
    numbers = {name: getattr(finding, name) for name in ("observed", "expected", "bound")}
    return StepFinding(_QUESTIONS.get(finding.law, "computation"), **fields, **numbers)
