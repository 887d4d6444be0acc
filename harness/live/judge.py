"""Judges the steps that a job has left as evidence, on this machine and at any time, while it trains or afterwards.

Some steps of a training are a short training: each is set to what it began with, given what it was given, and draws
what it drew. So what verifies a run judges them, a few at a time. What no single step tells is not asked: whether each
example comes once, and whether the next step begins where the one before ended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.errors import Abstained, NothingObserved
from harness.evidence.deposit import DepositJob, Training, digest_of, trainings, unknown
from harness.evidence.own_state import OwnState, Way
from harness.evidence.trace import Seen
from harness.judging.conditions import (
    EQUAL_DRAWS,
    OWN,
    OWN_STATISTICS,
    PLACED,
    PYTHON_ROWS,
    PYTHON_STATE,
)
from harness.judging.laws.protocol import Finding
from harness.judging.laws.variables_match_reference import LAW as OF_VARIABLES
from harness.judging.verdict import Verdict
from harness.judging.wording import joined
from harness.live import reasons
from harness.live.arrangement import Arrangement
from harness.live.composition import begins_with_all, may_be_restored, own_state, seen_of, ways
from harness.live.contributions import contributed, contributor
from harness.live.doubts import doubts_of
from harness.live.findings import QUESTIONS, StepFinding, StepJudged, found_by
from harness.live.judged_file import JudgedFile
from harness.live.learned import LearnedScript
from harness.live.loaded import made_anew, names_of_script, unmatched
from harness.live.own_state import are_alike, judge_own_state
from harness.live.recomputing import RecomputedSteps
from harness.live.repeats import repeats, shared
from harness.live.restarts import resumed_apart
from harness.live.state import AGREE, Divergence, begun_apart, begun_with_nan, divergences, left_apart, replicas_of
from harness.phases import single_phase
from harness.subject.script import Script
from simulator import LockstepError, RunFailed, UsageError

_TOGETHER = 8
"""Steps that are judged by one process, which takes seconds to begin."""
_LARGE_BYTES, _LARGE_TOGETHER = 16 << 20, 2
"""Of large steps fewer, since of each all that it leaves is kept."""
_OF_ONE_STEP = (OF_VARIABLES.id, *QUESTIONS)
"""Laws that a step answers which is taken out of its training."""
_OF_A_STEP = (EQUAL_DRAWS, OWN, OWN_STATISTICS, PYTHON_STATE, PYTHON_ROWS, PLACED)
"""The codes of conditions that hold of one."""


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
        self._file = JudgedFile(deposit)
        self._learned: dict[int, LearnedScript] = {}
        self._failed: dict[tuple[int, int], tuple[Literal["run", "files"], str]] = {}

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Within this context no other judge begins here, and what is judged can be noted.

        Raises:
            UsageError: another one is at work, or nothing can be written here.
        """
        with self._file.alone():
            yield

    @property
    def judged(self) -> list[StepJudged]:
        """All that have been, by this judge or an earlier one; of a step that was tried again what came of it last."""
        return self._file.steps

    @property
    def has_begun(self) -> bool:
        """Whether a process of a job has been here."""
        return bool(trainings(self._deposit) or unknown(self._deposit))

    @property
    def doubts(self) -> Iterator[str]:
        """Which files are missing or damaged, in a sentence each that says what is not judged because of that."""
        yield from doubts_of(self._deposit)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come, since the job has come to its end."""
        return all(training.is_over for training in trainings(self._deposit)[-1:])

    @property
    def gone(self) -> str | None:
        """A process of the job that has ended before its end, in words; whoever starts it again needs some time."""
        return next((training.gone for training in trainings(self._deposit)[-1:]), None)

    def judge(self, *, waits: bool = False) -> Iterator[StepJudged]:
        """Judge what is there and has not been judged, the oldest first.

        Args:
            waits: whether this is asked again while the training goes on, whose later steps may tell more of copies.

        Raises:
            UsageError: the program is not here.
            LockstepError: this machine cannot run it.
        """
        known = {each.key for each in self.judged if each.failed is None}
        known |= {(*step, "") for step in self._failed}  # which a later judge tries again
        earlier, every = list[Training](), trainings(self._deposit)
        last = max((training.number for training in every), default=0)
        for training in every:
            diverged = list(divergences(training))
            pending = [step for step in training.steps if (training.number, step, "") not in known]
            while pending:
                size = self._together(training, pending[0])
                steps, pending = pending[:size], pending[size:]
                for each in map(self._with_failure, self._judge(training, steps, diverged)):
                    self._file.add(each)
                    yield each
            is_last = training.number == last
            by_digests = (self._by_digests(training, diverged, waits=waits and is_last), self._repeated(training))
            for each in itertools.chain(self._resumed(earlier, training), *by_digests):
                if each.key not in known:
                    self._file.add(each)
                    yield each
            earlier.append(training)

    def _with_failure(self, step: StepJudged) -> StepJudged:
        failed, why = self._failed.get((step.training, step.step), (None, step.why))
        return msgspec.structs.replace(step, failed=failed, why=why)

    def _resumed(self, earlier: Sequence[Training], training: Training) -> Iterator[StepJudged]:
        found: list[StepFinding] = []
        if earlier:
            # Of a step that is gone or damaged that is said.
            with contextlib.suppress(Abstained, OSError, ValueError):
                found = resumed_apart(earlier, training)
        if found:
            yield StepJudged(training.number, 1, "inconsistent", findings=tuple(found), by_digest=True)

    def _repeated(self, training: Training) -> Iterator[StepJudged]:
        for step, finding in (*repeats(training), *shared(training)):
            yield StepJudged(training.number, step, "inconsistent", findings=(finding,), by_digest=True)

    def _by_digests(self, training: Training, diverged: Sequence[Divergence], *, waits: bool) -> Iterator[StepJudged]:
        """Say where copies came to differ, as soon as the state of a later step tells which, or none can come."""
        for each in diverged:
            later = next((step for step in training.steps if each.is_before(step)), None)
            if later is None and waits and not training.is_over:
                continue
            whose = self._whose(training, each)
            findings: list[StepFinding] = []
            if later is not None:
                with contextlib.suppress(OSError, ValueError):  # as above
                    findings = begun_apart(training, later, each, whose)
            yield StepJudged(
                training.number,
                each.step,
                "inconsistent",
                findings=tuple(findings) or (each.finding,),
                by_digest=True,
            )

    def _together(self, training: Training, step: int) -> int:
        return _LARGE_TOGETHER if training.size(step) > _LARGE_BYTES else _TOGETHER

    def _judge(self, training: Training, steps: Sequence[int], diverged: Sequence[Divergence]) -> Iterator[StepJudged]:
        """Judge what some steps compute together, and then say of the others which copies they began with."""

        def apart(step: int) -> list[StepFinding]:
            before = [each for each in diverged if each.is_before(step)]
            known = self._whose(training, before[-1]) if before else None
            with contextlib.suppress(OSError, ValueError):  # it is gone or damaged, which is said where it is judged
                return begun_apart(training, step, before[-1] if before else None, known)
            return []

        def broken(step: int) -> str | None:
            with contextlib.suppress(OSError, ValueError):  # as above
                trained = {each.name for each in seen_of(training.readers()[0][1], step).gradients}
                nothing = begun_with_nan(training, step, trained)
                return nothing or (reasons.RESTORED if may_be_restored(training, step) else None)
            return None

        damaged = {step: why for step in steps if (why := _damage(training, step)) is not None}
        for step, why in damaged.items():
            self._failed[training.number, step] = ("files", why)
            yield StepJudged(training.number, step, "abstained", why=why)
        whole = [step for step in steps if step not in damaged]
        alike = [step for step in whole if not apart(step)]
        unknown = {step: why for step in alike if (why := broken(step)) is not None}
        for step, why in unknown.items():
            yield StepJudged(training.number, step, "abstained", why=why)
        yield from self._judge_together(training, [step for step in alike if step not in unknown])
        for step in whole:
            if step not in alike:  # what is known of the replica may come from those that were judged now
                yield StepJudged(training.number, step, "inconsistent", None, tuple(apart(step)), reasons.APART)

    def _judge_together(self, training: Training, steps: Sequence[int]) -> Iterator[StepJudged]:
        """Judge some steps together; those by themselves with which something is wrong, and the others again."""
        if not steps:
            return
        learned = self._script_of(training)
        chosen = learned.arranged(training, steps)
        if len(chosen.places) < len(steps):
            yield from self._judge_together(training, list(chosen.places))
            yield from self._judge_together(training, [step for step in steps if step not in chosen.places])
            return
        seen, late = list[Seen](), learned.is_late
        began = time.monotonic()
        try:
            with single_phase(f"{_told(training, chosen)}, as one device computes"):
                verdict, seen = self._verdict(training, chosen)
        except UsageError:
            raise
        except (Abstained, RunFailed, OSError, ValueError) as error:  # of a failure `_failure` tells
            verdict = Verdict("", training.job.header.strategy, (), abstained=str(error))
        order = [each.called for each in seen]
        if learned.learns(chosen, order) or learned.is_late != late:
            yield from self._judge_together(training, steps)
            return
        if misplaced := list(chosen.misplaced(order)):
            for step in misplaced:
                why = _apart(seen).get(chosen.places[step], reasons.FIRST_CALL)
                yield StepJudged(training.number, step, "abstained", why=why)
            yield from self._judge_together(training, [step for step in steps if step not in misplaced])
            return
        unmade = [step for step, place in chosen.places.items() if place > len(order) > 0]
        if 0 < len(unmade) < len(steps):  # there may be room for these where the others were
            yield from self._judge_together(training, [step for step in steps if step not in unmade])
            yield from self._judge_together(training, unmade)
            return
        if verdict.outcome != "consistent" and len(steps) > 1:
            numbers = {each.step for each in verdict.findings if each.step is not None}
            numbers.update(() if verdict.alone is None else verdict.alone.wrong)
            wrong = {chosen.steps[number - 1] for number in numbers} or set(steps)
            yield from self._judge_together(training, [step for step in steps if step not in wrong])
            for step in sorted(wrong):
                yield from self._judge_together(training, [step])
            return
        yield from self._judged(training, chosen, verdict, seen, (time.monotonic() - began) / len(steps))

    def _judged(
        self, training: Training, chosen: Arrangement, verdict: Verdict, seen: Sequence[Seen], seconds: float
    ) -> Iterator[StepJudged]:
        """What is to be said of steps that are all consistent, or of the one that is not."""
        findings, again, by_python = self._diagnosed(training, chosen, verdict, seen)
        unknown = None if verdict.outcome != "abstained" else verdict.why_abstained or verdict.nothing_compared
        apart = _apart(seen) | {place: reasons.NOT_MADE for place in chosen.places.values() if place > len(seen) > 0}
        if verdict.outcome == "consistent":
            compared = {step for law in verdict.judgements if law.law == OF_VARIABLES.id for step, _ in law.ratios}
            apart = {place: reasons.NOTHING_LEFT for place in chosen.places.values() if place not in compared} | apart
        own, why = self._own_state(training, chosen) if verdict.outcome == "consistent" else ({}, {})
        for step, place in chosen.places.items():
            wrong = (*findings, *own.get(place, ()))
            outcome = "inconsistent" if wrong else "abstained" if place in apart or by_python else verdict.outcome
            said, worst = apart.get(place, by_python or unknown), verdict.worst_ratio
            given = _given(verdict) if outcome == "consistent" else ()
            judged = StepJudged(training.number, step, outcome, worst, wrong, said, given, why.get(place))
            yield msgspec.structs.replace(judged, seconds=round(seconds, 3), again=again)

    def _diagnosed(
        self, training: Training, chosen: Arrangement, verdict: Verdict, seen: Sequence[Seen]
    ) -> tuple[tuple[StepFinding, ...], str | None, str | None]:
        """What is wrong with a step, what it is once more where it ran, and why it is not judged after all."""
        findings = tuple(map(found_by, verdict.findings))
        computed = any(each.question == "computation" for each in findings)
        apart = any(each.law == AGREE for each in findings)
        if not (computed or apart):
            return findings, None, None
        with single_phase(f"{_told(training, chosen)}, as replicas compute"):
            again, replicas = self._again(training, chosen)
        ((step, place),) = chosen.places.items()
        findings = tuple(self._with_replica(training, step, findings, [*seen[place - 1 :][:1], *replicas]))
        if not computed:
            return findings, None, None
        with single_phase(f"{_told(training, chosen)}, replica by replica"):
            whose = tuple(self._contributor(training, chosen, findings))
        evidence = training.readers()[0][1].step(step)
        by_python = evidence is not None and evidence.eager is not None
        if by_python and again == "transient" and not apart and all(each.replica is None for each in whose):
            return (), None, reasons.BY_PYTHON
        return (*findings, *whose), again, None

    def _own_state(
        self, training: Training, chosen: Arrangement
    ) -> tuple[Mapping[int, Sequence[StepFinding]], Mapping[int, str]]:
        """What is wrong of what each replica keeps for itself, and why it is not judged, by the places of steps."""
        names = [name for job in training.folders.values() for name in replicas_of(job)]
        reader, states = training.readers()[0][1], dict[int, Sequence[OwnState]]()
        try:
            told = self._script_of(training).names
            every = {place: own_state(training, step, told) for step, place in chosen.places.items()}
            states |= {place: own for place, own in every.items() if own and len(names) > 1}
            by_hand = [place for step, place in chosen.places.items() if seen_of(reader, step).by_hand]
            if states:
                with single_phase(f"{_told(training, chosen)}, what each replica keeps for itself"):
                    return judge_own_state(states, names, self._steps(training, chosen).differences, by_hand)
        except (LockstepError, OSError, ValueError) as error:
            return {}, dict.fromkeys(states, _failure(error)[1])
        return {}, {}

    def _script_of(self, training: Training) -> LearnedScript:
        return self._learned.setdefault(training.number, LearnedScript(_TOGETHER + 1))

    def _whose(self, training: Training, divergence: Divergence) -> str | None:
        """Whose fault it is that copies differ: a step that was judged since may have told, soon after it if at all."""
        if divergence.replica is not None or divergence.between:
            return divergence.replica
        names = [name for job in training.folders.values() for name in replicas_of(job)]
        since = (each for each in self.judged if each.training == training.number and each.step >= divergence.step)
        told = (finding for each in since for finding in each.findings if finding.law == AGREE)
        return next((finding.replica for finding in told if finding.replica in names), None)

    def _contributor(
        self, training: Training, chosen: Arrangement, findings: Sequence[StepFinding]
    ) -> Iterator[StepFinding]:
        """The replica that has contributed what it should not have, if it is one of several, or that none has."""
        ((step, place),) = chosen.places.items()
        names = [name for job in training.folders.values() for name in replicas_of(job)]
        given = contributed(self._seen(training, step))
        if not any(finding.variable in gradients for finding in findings for gradients in given.values()):
            return  # what is wrong has no gradient

        def should(replica: str) -> Mapping[str, Any]:
            own = self._steps(training, chosen).by_replica(names.index(replica))[place - 1 :][:1]
            return next(iter(contributed([(training.job, each) for each in own]).values()), {})

        with contextlib.suppress(LockstepError):  # then nobody knows
            yield from contributor(given, should)

    def _seen(self, training: Training, step: int) -> list[tuple[DepositJob, Seen]]:
        """What each process has left of a step, as the judge's script calls it."""
        names = self._script_of(training).names
        return [(job, seen_of(reader, step, names)) for job, reader in training.readers()]

    def _steps(self, training: Training, chosen: Arrangement) -> RecomputedSteps:
        script, names = self._script(training, len(chosen.steps)), self._script_of(training).names
        return RecomputedSteps(training, chosen, script, self._timeout, names)

    def _with_replica(
        self, training: Training, step: int, findings: Sequence[StepFinding], computed: Sequence[Seen]
    ) -> Iterator[StepFinding]:
        """Findings, of which those of copies that differ name whose are wrong."""
        wrong = left_apart(self._seen(training, step), *computed)
        for each in findings:
            yield msgspec.structs.replace(each, replica=wrong) if each.law == AGREE else each

    def _again(self, training: Training, chosen: Arrangement) -> tuple[str | None, Sequence[Seen]]:
        """What replicas on this machine make of a wrong step, if that is where it ran: the same again, and what."""
        if not all(job.is_here for job in training.folders.values()):
            return None, ()
        with contextlib.suppress(LockstepError):  # then nobody knows
            status, reference = self._steps(training, chosen).by_replicas()
            (place,) = chosen.places.values()
            told = {"held": "persistent", "broken": "transient"}.get(status)
            return told, reference.trace.clients[0].seen[place - 1 :][:1]
        return None, ()

    def _verdict(self, training: Training, chosen: Arrangement) -> tuple[Verdict, list[Seen]]:
        """As of `_computed`; where that fails it is kept of each step why, since a later judge may compute it."""
        keys = [(training.number, step) for step in chosen.places]
        for key in keys:
            self._failed.pop(key, None)
        try:
            return self._computed(training, chosen)
        except NothingObserved as error:
            raise UsageError(f"{training.job.script} {reasons.NO_STEP}") from error
        except (Abstained, UsageError):
            raise
        except (LockstepError, OSError, ValueError) as error:
            self._failed |= dict.fromkeys(keys, _failure(error))
            raise

    def _computed(self, training: Training, chosen: Arrangement) -> tuple[Verdict, list[Seen]]:
        """What is found of steps, and what one device has made of them.

        Where each replica begins with something of its own, such as a sum of its gradients, one device may begin with
        the sum, the mean, or that of the first. Nobody knows which it is: where what is wrong depends on it, it has to
        be other than what as many replicas make of it once more, also of what another one had.
        """
        learned = self._script_of(training)
        first, *others = sorted(ways(training, chosen.places), key=lambda way: way != learned.way)
        steps, findings = self._steps(training, chosen), list[Sequence[Finding]]()
        for way in (first, *others) if others else ():
            verdict, seen = self._by_way(steps, way, briefly=True)
            if verdict.outcome != "inconsistent":
                learned.way = way
                return verdict, seen
            if findings and are_alike(findings[0], verdict.findings):
                return self._by_way(steps, first)
            findings.append(verdict.findings)
        one = others and len(chosen.places) == 1
        if one and all(steps.by_replicas(turned=turned)[0] == "held" for turned in (False, True)):
            raise Abstained(reasons.OWN_BEGUN)
        return self._by_way(steps, first)

    def _by_way(self, steps: RecomputedSteps, way: Way | None, *, briefly: bool = False) -> tuple[Verdict, list[Seen]]:
        """The same, where one device begins so; see `compose`."""
        learned = self._script_of(steps.training)
        steps = dataclasses.replace(steps, names=learned.names)
        verdict, reference = steps.by_one_device(way, briefly=briefly)
        (_, reader), (client, *_) = steps.training.readers()[0], reference.trace.clients
        if (name := next(unmatched(steps, client), None)) is not None:
            names = {} if steps.names else names_of_script(steps, client)
            if not names:
                raise Abstained(reasons.RENAMED.format(name))
            learned.names = names
            return self._by_way(steps, way, briefly=briefly)
        if steps.chosen.places.get(1) == 1 and not begins_with_all(reader, client.start, steps.names):
            learned.is_late = True
        if verdict.outcome != "consistent" and (name := next(made_anew(steps, client), None)) is not None:
            raise Abstained(reasons.RENAMED.format(name))
        of_one = tuple(each for each in verdict.judgements if each.law in _OF_ONE_STEP)
        return dataclasses.replace(verdict, judgements=of_one), [*client.seen]

    def _script(self, training: Training, first: int) -> Script:
        """What the job ran, as it is here.

        Raises:
            UsageError: it is not here, or another one is: of what that computes nothing follows.
        """
        job = training.job
        if not self._command and not Path(job.script).is_file():
            raise UsageError(f"the job ran {job.script or 'no script'}, which is not here; {reasons.ELSEWHERE}")
        found = Script.of(self._command, first) if self._command else Script(job.script, job.args, job.cwd, first=first)
        if job.digest and digest_of(found.path) != job.digest:
            raise UsageError(f"{found.path} is not the file that the job ran; keep that, and {reasons.ELSEWHERE}")
        return found


def _told(training: Training, chosen: Arrangement) -> str:
    """Which steps are judged together, in words."""
    words = f"step{'s' * (len(chosen.places) > 1)} {joined(list(map(str, chosen.places)))}"
    return words + (f" of start {training.number + 1}" if training.number else "")


def _given(verdict: Verdict) -> tuple[str, ...]:
    """What is taken as given of single steps; which examples there are, and in which order, nobody asks."""
    return tuple(each.text for each in verdict.conditions if each.code in _OF_A_STEP)


def _apart(seen: Sequence[Seen]) -> dict[int, str]:
    """Why steps of the judge's script are not those of the run, by their places."""
    return {each.index: each.apart for each in seen if each.apart is not None}


def _failure(error: Exception) -> tuple[Literal["run", "files"], str]:
    """What has failed, and why."""
    if not isinstance(error, RunFailed):
        return ("run" if isinstance(error, LockstepError) else "files"), str(error)
    incarnations = [each for task in error.result.values() for each in task.incarnations]
    restored = next((save.path for each in incarnations for save in each.saves if save.restores), None)
    begins = "" if restored is None else f"the script goes on from {restored}: give it a directory without that; "
    why = f"{begins}the script fails as its own reference: {str(error).splitlines()[0]}"
    return "run", f"{why}; before that it wrote: {error.last_line}" if error.last_line else why


def _damage(training: Training, step: int) -> str | None:
    """What is wrong with the files of a step, as far as they are there."""
    try:
        for _, reader in training.readers():
            reader.check(step)
    except ValueError as error:
        return str(error)
    except OSError:  # room has ended for it, which is said where it is judged
        return None
    return None
