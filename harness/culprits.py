"""Looks at every operation of the step at which a run first differs from its reference, and names the line."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.evidence.observed import OBSERVABLES, items
from harness.evidence.parts import read_parts
from harness.evidence.reference import Reference
from harness.evidence.trace import Array, RunTrace, Value, Variable
from harness.judging.culprit import Culprit, Looked, find_culprit
from harness.judging.verdict import Verdict
from harness.running.watched import watch_step
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase
from simulator import LockstepError

__all__ = ["with_culprit"]


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
    began = time.monotonic()
    run = read_parts(directory).last
    found = _looked(verdict, program, case, run, reference, **options)
    culprit, why_not = (found, None) if isinstance(found, Culprit) else (None, found)
    return dataclasses.replace(verdict, looked=Looked(culprit, why_not, time.monotonic() - began))


def _looked(
    verdict: Verdict,
    program: Program,
    case: StrategyCase,
    run: RunTrace,
    reference: Reference,
    **options: Any,
) -> Culprit | str:
    if (why := _hidden(case)) is not None:
        return why
    first = verdict.first_divergence
    if first is not None and first.observable not in OBSERVABLES:
        return f"what differs first is no value that an operation gives, but {first.observable}"
    steps = len(reference.trace.clients[0].steps)
    step = 1 if first is None else first.step
    last = step is None or steps == 0
    at = steps + 1 if step is None or steps == 0 else step
    wrong = list(_wrong(verdict, run, None if last else at))
    try:
        sight = watch_step(program, case, step=at, last=last, threads=reference.threads, **options)
        return find_culprit(sight.clients, sight.reference, sight.noisy, wrong)
    except LockstepError as error:
        return f"the program could not be watched: {str(error).splitlines()[0]}"


def _hidden(case: StrategyCase) -> str | None:
    """Why nothing can be seen under a strategy, or None."""
    if case.hardware == "tpu":
        return "what runs on a TPU is compiled, and its operations cannot be watched"
    if case.family.name.startswith("parameter_server"):
        return "what a coordinator's workers compute runs in other processes, and their operations cannot be watched"
    return None


def _wrong(verdict: Verdict, run: RunTrace, step: int | None) -> Iterator[Array]:
    """What the first client reported at a step and was wrong."""
    client = run.clients[0]
    record = client.final if step is None else next((each for each in client.steps if each.index == step), None)
    named = {(finding.observable, finding.variable) for finding in verdict.findings if finding.step == step}
    for observable in {observable for observable, _ in named if observable in OBSERVABLES}:
        for name, item in (items(record, observable) or {}).items():
            if isinstance(item, Value) and ((observable, name) in named or (observable, None) in named):
                yield from item.parts[:1]
            elif isinstance(item, Variable):
                continue  # found by what is assigned
