"""Computes steps of a training again on this machine, by one device or by as many replicas as it had."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.attempts import JudgedAttempt
from harness.evidence.deposit import Training
from harness.evidence.own_state import Way
from harness.evidence.parts import read_parts
from harness.evidence.reference import Reference
from harness.evidence.trace import Seen
from harness.judging.align import aligned_cases
from harness.judging.laws.protocol import Finding
from harness.judging.laws.variables_match_reference import LAW as OF_VARIABLES
from harness.judging.verdict import Verdict
from harness.judging.wrong_steps import each_step
from harness.live.arrangement import Arrangement
from harness.live.composition import compose
from harness.request import VerifyRequest
from harness.running.reference import reference_runs
from harness.running.script_checks import ready
from harness.subject.program import Program
from harness.subject.script import Script
from harness.subject.strategies import strategy_case
from harness.verdicts import judged_by, sufficient
from simulator.machines.local.scratch import scratch

_SEED = 20


@dataclasses.dataclass(frozen=True)
class RecomputedSteps:
    """Each of these is a run of its own, or several; what `compose` raises they raise, and what a run does.

    Attributes:
        training: whose steps they are.
        chosen: which.
        script: that the job ran, as it is here.
        timeout: seconds for each run.
        names: as of `compose`.
    """

    training: Training
    chosen: Arrangement
    script: Script
    timeout: float
    names: Mapping[str, str]

    def by_one_device(self, way: Way | None, *, briefly: bool = False) -> tuple[Verdict, Reference]:
        """The verdict on them; `way` as of `compose`.

        Args:
            way: see above.
            briefly: whether nothing more is done where they are inconsistent, to say why.
        """
        with self._composed(way=way) as attempt:
            if not briefly:
                return judged_by(attempt, {})
            verdict, reference = attempt.by_one_replica({})
            return sufficient(attempt, verdict, reference), reference

    def by_replicas(self, *, turned: bool = False) -> tuple[str, Reference]:
        """Whether as many replicas leave the same variables, as of `Judgement.status`.

        Args:
            turned: whether each has what another one had.
        """
        with self._composed(turned=turned) as attempt:
            verdict, reference = attempt.by_replicas()
        return next((each.status for each in verdict.judgements if each.law == OF_VARIABLES.id), ""), reference

    def by_replica(self, number: int) -> Sequence[Seen]:
        """What one device makes of what a single replica had."""
        with self._composed(only=number) as attempt:
            told, venue = attempt.program.natively(len(self.chosen.steps)), attempt.asked.venue(attempt.case)
            with reference_runs(told, attempt.directory, attempt.case.name, venue) as runs:
                return runs.plain().trace.clients[0].seen

    def differences(self, *, turned: bool = False, way: Way | None = None) -> Iterator[tuple[int, Finding]]:
        """See `harness.live.own_state.ComparedSteps`."""
        with self._composed(own=True, turned=turned, way=way) as attempt:
            _, reference = attempt.by_replicas() if way is None else attempt.by_one_replica({})
            for case in aligned_cases(read_parts(attempt.directory), reference):
                for place, step in each_step(case):
                    yield from ((place, each) for each in OF_VARIABLES.judge(step).findings)

    @contextlib.contextmanager
    def _composed(self, **how: Any) -> Iterator[JudgedAttempt]:
        job = self.training.job
        case = strategy_case(job.header.strategy, job.hardware)
        program = ready(Program.of_script(self.script), case, None, prove=False)
        program = dataclasses.replace(program, variables=(*job.variables.items(), *program.variables))
        asked = VerifyRequest(
            "derived", False, False, False, _SEED, self.timeout, stream=False, keep=False, tf32=job.tf32
        )
        with scratch("judged") as directory:
            compose(self.training, self.chosen, directory, names=self.names, **how)
            yield JudgedAttempt(program, case, None, directory, asked, time.monotonic())
