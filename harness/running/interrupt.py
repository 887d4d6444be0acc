"""Runs a program, kills all of it after a step, and starts it again where it had saved."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import time
from pathlib import Path
from typing import Any

import msgspec

from harness.evidence.parts import INTERRUPTED, TRACES, Killed
from harness.evidence.saves import last_journal, note_saves
from harness.recording.client import Assignment
from harness.running.clients import client_of, env_of_servers, viewed
from harness.running.link_counts import is_linked, run_linked
from harness.running.machine_files import (
    brought_if_failed,
    fetch_traces,
    machine_assignment,
    placed_program,
    record_directory,
)
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase
from simulator import Cluster, DeadlineExceeded, Run, RunResult, UsageError


@dataclasses.dataclass(frozen=True)
class Interrupting:
    """The step after which all tasks are to be killed, and the strategy to resume under."""

    at: int
    resume_case: StrategyCase


def check_interruption(at: int | None, resume_strategy: object) -> int | None:
    """The step to interrupt after, as an int, or None for no interruption.

    Raises:
        UsageError: it is no step, or there is a strategy to resume under but no interruption.
    """
    if at is None:
        if resume_strategy is not None:
            raise UsageError("resume_strategy says how to go on after interrupt_at; give interrupt_at=STEP as well")
        return None
    try:
        number = operator.index(at)
    except TypeError:
        number = 0
    if number < 1 or isinstance(at, bool):
        raise UsageError(f"interrupt_at={at!r} is not a step; steps count from 1")
    return number


def run_twice(
    program: Program,
    case: StrategyCase,
    asked: Interrupting,
    directory: Path,
    *,
    seed: int,
    timeout: float,
    stream: bool,
    keeps: bool = False,
) -> RunResult:
    """Run a program until every client has recorded a step, kill all tasks at once, and run it again to its end.

    The clients of both runs share `record.directory`. Traces, logs and journals are left in `directory`: those of the
    killed part in its `interrupted`, those of the resumed one where a run without interruption has them. With `keeps`
    so is the evidence of each step.

    Returns:
        How the tasks of the resumed run ended; what both have recorded is for `harness.evidence.parts` to read.

    Raises:
        UsageError: the program ended without recording that step.
        RunFailed: a task crashed, hung or vanished unasked, in either part.
    """
    first, kept = directory / INTERRUPTED, directory / "kept"
    traces = [part / TRACES for part in (first, directory)]
    for folder in (*traces, kept):
        folder.mkdir(parents=True)
    options: dict[str, Any] = {"timeout": timeout, "stream": stream}
    # A script resumes in the same view of the file system, in which it has saved.
    with viewed(program, directory) as view, contextlib.ExitStack() as stack:
        options["env"] = env_of_servers(program, case, view)
        task = Assignment("", "", seed=seed, view=view, keeps=keeps)
        with _cluster(case, first / "run", **options) as cluster:
            record = stack.enter_context(record_directory(cluster, case, kept, needed=True))
            with brought_if_failed(traces[0]):
                run = _kill_after(cluster, asked.at, program, case, machine_assignment(case, traces[0], record, task))
            fetch_traces(run, traces[0])
        assert record is not None
        files = (str(file.relative_to(record)) for file in record.rglob("*") if file.is_file())
        saved = sorted(files if view is None else view.files())
        killed = Killed(asked.at, tuple(saved))
        killed.leave(directory)
        resume = asked.resume_case
        task = msgspec.structs.replace(machine_assignment(resume, traces[1], record, task), incarnation=1)
        with _cluster(resume, directory / "run", **options) as cluster:
            work = (client_of(program), placed_program(program, resume), resume, task)
            with brought_if_failed(traces[1]):
                result = run_linked(cluster, directory, *work)
            fetch_traces(result.directory, traces[1])
            journals = last_journal(first / "run"), result.directory / "journal.jsonl"
            note_saves(traces[1], record if view is None else None, *journals)
            if view is not None:
                msgspec.structs.replace(killed, later=tuple(view.files())).leave(directory)
            return result


def _cluster(case: StrategyCase, out: Path, **options: Any) -> Cluster:
    return Cluster(case.topology, relay=is_linked(case), out=out, **case.on, **options)


def _kill_after(cluster: Cluster, step: int, program: Program, case: StrategyCase, assignment: Assignment) -> Path:
    """Start the program, and SIGKILL every task when each client stands right after the step; the run's directory."""

    def kill(run: Run) -> Path:
        if _all_stand(run, case, step):
            run.kill()
        else:
            _never_there(run, step, program, case)
        return run.directory

    for task in case.clients:
        cluster.set_gate(task, f"step:{step}")
    placed = placed_program(program, case)
    return cluster.attempt(kill, lambda: cluster.start(client_of(program), placed, case, assignment))


def _all_stand(run: Run, case: StrategyCase, step: int) -> bool:
    deadline = time.monotonic() + run.options.timeout
    try:
        return all(run.wait_gate(task, f"step:{step}", max(0.0, deadline - time.monotonic())) for task in case.clients)
    except DeadlineExceeded:
        return False


def _never_there(run: Run, step: int, program: Program, case: StrategyCase) -> None:
    """Say why there was nothing to interrupt: the run failed or hung, or it was over before that step."""
    steps = {task: run.tasks[task].steps for task in case.clients}
    ended = [run.tasks[task].finished for task in case.clients]
    if all(ended) or not any(ended) or any(task.error is not None for task in run.tasks.values()):
        run.join(seconds=None if any(ended) else 0.0)  # raises what went wrong, if anything did
    said = ", ".join(f"{task} recorded {count}" for task, count in steps.items())
    epochs = "; Keras's fit records one step for each epoch then" if case.ps else ""
    raise UsageError(
        f"{program.name} under {case.name} never recorded step {step}, after which it was to be interrupted: "
        f"{said}{epochs}"
    )
