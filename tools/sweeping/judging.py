"""One case from its program to a result: run and judged once, then judged with one error after the other put in."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec

from harness import verify
from harness.evidence.observed import OBSERVABLES
from harness.evidence.parts import TRACES, read_parts
from harness.evidence.reference import Reference
from harness.evidence.trace import ClientTrace, RunTrace, merge, read_client
from harness.evidence.writing import write_client
from harness.judging.judge import JudgedRun, judge_parts
from harness.judging.laws import all_laws
from harness.judging.laws.protocol import FINDINGS_MAX, Finding
from harness.judging.tolerance import Tolerance
from harness.judging.verdict import Verdict
from harness.running.cache import CACHE_VARIABLE
from harness.saved_run import load_run
from simulator import LockstepError, UsageError
from simulator.machines.local.scratch import scratch
from tools.sweeping.cases import Case
from tools.sweeping.injecting import SIZE, Injection, NoEffect, grouped, injected, injections
from tools.sweeping.resolving import bound_at, excused, stated

# The laws that compare a value with the reference's, by what they compare.
_LAWS = {law.id: observable for law in all_laws() if (observable := law.id.partition("_match")[0]) in OBSERVABLES}

Outcome = Literal["consistent", "accused", "abstained", "failed"]
Fate = Literal["caught", "not judged", "coarser", "missed", "no effect"]


class Injected(Injection, frozen=True):
    """One error and what became of it; `ratio` is error / bound, None where nobody knows the bound."""

    fate: Fate
    ratio: float | None = None


class Result(msgspec.Struct, frozen=True):
    """One case: the verdict on the right program, and the fates of errors.

    `text` is of a verdict that is not consistent the whole of it, of a failure the message. `ratios` are the worst ones
    by observable. `resolution` is what the verdict states.
    """

    family: str
    seed: int
    strategy: str
    numbers: dict[str, Any]
    outcome: Outcome
    text: str = ""
    ratios: dict[str, float] = {}
    resolution: Any = None
    injected: tuple[Injected, ...] = ()
    seconds: float = 0.0
    seconds_injecting: float = 0.0

    @property
    def worst_ratio(self) -> float:
        """Over all observables; 0 if nothing was compared."""
        return max(self.ratios.values(), default=0.0)


def result_of(case: Case, keep: Path | None, most: int, timeout: float) -> Result:
    """As `run_case`, which leaves its run in the folder of the case under `keep`."""
    with scratch("sweep") as directory:
        return run_case(case, directory, None if keep is None else keep / case.name, most, timeout)


def run_case(case: Case, directory: Path, keep: Path | None, most: int, timeout: float) -> Result:
    """Run a case and judge it.

    Args:
        case: which one.
        directory: a directory of its own, of which nothing is needed afterwards.
        keep: where to leave the run, as `verify(out=)` does; None to leave nothing.
        most: errors to inject.
        timeout: seconds for each of its runs.
    """
    began = time.monotonic()
    run = directory / "run" if keep is None else keep
    result = Result(case.family, case.seed, case.strategy, case.numbers, "failed")
    with _cache(directory / "references"):
        try:
            verdict = verify(case.program(), case.strategy, out=run, timeout=timeout)
        except LockstepError as error:
            return msgspec.structs.replace(result, text=str(error), seconds=time.monotonic() - began)
    shutil.rmtree(directory / "references", ignore_errors=True)
    outcome: Outcome = "accused" if verdict.outcome == "inconsistent" else verdict.outcome
    result = msgspec.structs.replace(
        result,
        outcome=outcome,
        text="" if outcome == "consistent" else str(verdict),
        ratios=_ratios(verdict),
        resolution=stated(verdict),
        seconds=time.monotonic() - began,
    )
    began = time.monotonic()
    random = Random(f"{case.name}:errors")
    errors = errors_in(verdict, run, directory / "changed", random, most) if most else ()
    return msgspec.structs.replace(result, injected=errors, seconds_injecting=time.monotonic() - began)


@contextlib.contextmanager
def _cache(directory: Path) -> Iterator[None]:
    """Reference runs are kept here meanwhile, where they can be thrown away, since no other case has the same."""
    before = os.environ.get(CACHE_VARIABLE)
    os.environ[CACHE_VARIABLE] = str(directory)
    try:
        yield
    finally:
        del os.environ[CACHE_VARIABLE]
        if before is not None:
            os.environ[CACHE_VARIABLE] = before


def _ratios(verdict: Verdict) -> dict[str, float]:
    return {
        _LAWS[judgement.law]: judgement.worst_ratio
        for judgement in verdict.judgements
        if judgement.law in _LAWS and judgement.worst_ratio is not None
    }


def errors_in(verdict: Verdict, run: Path, changed: Path, random: Random, most: int) -> tuple[Injected, ...]:
    """Put errors into what a run recorded and judge it again: what becomes of each of them.

    Values that are accused without an error get none, since their first finding would say nothing of it.

    Args:
        verdict: on the run.
        run: its directory, which stays as it is.
        changed: where copies are made, one after the other.
        random: chooses numbers, and errors where there are too many.
        most: errors at most.
    """
    try:
        parts, reference, _ = load_run(run)
    except UsageError:  # it abstained before there was anything to judge
        return ()
    accused = {_place(finding)[:2] for finding in verdict.findings}
    possible = injections(reference.trace.clients[0], random, most)
    wanted = [each for each in possible if (each.observable, each.name) not in accused]
    tolerance = judge_parts(parts, reference).last.tolerance
    most_together = max(1, FINDINGS_MAX - len(accused))  # so that a law keeps the findings of all of them
    groups = grouped(wanted, most_together)
    return tuple(each for group in groups for each in _judged(group, run, changed, reference, tolerance, verdict))


def _judged(
    group: Sequence[Injection], run: Path, changed: Path, reference: Reference, tolerance: Tolerance, verdict: Verdict
) -> Iterator[Injected]:
    """Judge a run with a group of errors, of which each has a finding of its own."""
    trace, lost = _with_all(merge([read_client(file) for file in _traces(run)]), group)
    found = {_place(finding): finding for finding in _judge_changed(run, changed, trace, reference)}
    for injection in group:
        bound = bound_at(tolerance, injection)
        ratio = None if not bound else SIZE * abs(injection.expected) / bound
        fate: Fate
        if injection in lost:
            fate, ratio = "no effect", None
        elif (finding := found.get((injection.observable, injection.name, injection.step))) is not None:
            fate, ratio = "caught", finding.ratio
        else:
            fate = _excuse(verdict, injection, bound)
        yield Injected(**msgspec.structs.asdict(injection), fate=fate, ratio=ratio)


def _excuse(verdict: Verdict, injection: Injection, bound: float | None) -> Fate:
    why = excused(verdict, injection, bound)
    return "not judged" if why == "not judged" else "coarser" if why == "coarser" else "missed"


def _with_all(trace: RunTrace, group: Iterable[Injection]) -> tuple[Sequence[ClientTrace], list[Injection]]:
    """The clients with all errors, and the errors that change nothing."""
    clients: Sequence[ClientTrace] = trace.clients
    lost = []
    for injection in group:
        try:
            clients = injected(clients, injection)
        except NoEffect:
            lost.append(injection)
    return clients, lost


def _traces(run: Path) -> list[Path]:
    return sorted((run / TRACES).glob("*.trace"))


def _judge_changed(
    run: Path, changed: Path, clients: Sequence[ClientTrace], reference: Reference
) -> tuple[Finding, ...]:
    """The findings on a copy of the run in which the clients have recorded this."""
    shutil.copytree(run, changed, copy_function=os.link, ignore=shutil.ignore_patterns("reference", "kept"))
    try:
        for file in _traces(changed):
            task = read_client(file).header.task
            write_client(file, next(client for client in clients if client.header.task == task))
        judged: JudgedRun = judge_parts(read_parts(changed), reference)
    finally:
        shutil.rmtree(changed)
    return tuple(finding for judgement in judged.judgements if judgement.law in _LAWS for finding in judgement.findings)


def _place(finding: Finding) -> tuple[str | None, str, int | None]:
    return finding.observable, finding.variable or "loss", finding.step
