"""Runs a program under a strategy and returns what it recorded, without judging it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.errors import MissingHardware, NothingObserved
from harness.evidence.corrupt_values import save_corrupt_values
from harness.evidence.parts import TRACES, read_parts
from harness.evidence.saves import JOURNAL, note_saves
from harness.evidence.trace import RunTrace
from harness.recording.client import Assignment, FileView
from harness.run_directory import opened_run
from harness.running.clients import client_of, env_of_servers, private_there, viewed
from harness.running.disturbance import Disturbance
from harness.running.interrupt import Interrupting, check_interruption
from harness.running.link_counts import is_linked, run_linked
from harness.running.machine_files import (
    brought_if_failed,
    fetch_traces,
    machine_assignment,
    placed_program,
    record_directory,
)
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase, strategy_case
from simulator import Cluster, RunFailed, RunResult, TaskError, UsageError
from simulator.capabilities import accelerators
from simulator.capabilities.versions import why_refused
from simulator.hardware import HardwareMissing, gpus

_SEED = 20


def observe(
    program: Callable[..., Any] | str | Program,
    strategy: str | StrategyCase,
    *,
    hardware: str = "cpu",
    network: str | None = None,
    timeout: float = 120.0,
    seed: int = _SEED,
    out: str | Path | None = None,
    stream: bool = False,
) -> RunTrace:
    """Run a program under a strategy, once and without a reference, and return what its clients recorded.

    Args:
        program: `train(strategy, record)`, or `FILE.py:FUNCTION`.
        strategy: a name such as `multi_worker-2`, see `lockstep strategies`.
        hardware: `cpu`, `gpu`, `gpu-simulated`, `tpu` or `tpu-rehearsed`.
        network: of a strategy with several tasks, as of `simulator.Cluster`.
        timeout: seconds for the run.
        seed: given to Python, NumPy, TensorFlow and Keras before the program starts.
        out: keep traces and logs in this directory, in place of an earlier run; one that holds something else is
            refused.
        stream: copy the tasks' output to stderr while they run.

    Raises:
        UsageError: a program, strategy or option that does not exist.
        NothingObserved: the program reports nothing.
        MissingHardware: the strategy needs hardware that is not there.
        RunFailed: a task crashed, hung or vanished.
    """
    case = strategy_case(strategy, hardware, network)
    under_test = Program.of(program)
    check_hardware(case)
    with opened_run(out) as directory:
        run_once(under_test, case, directory, seed=seed, timeout=timeout, stream=stream, keep=out is not None)
        return read_parts(directory).last


def run_once(
    program: Program,
    case: StrategyCase,
    directory: Path,
    *,
    seed: int,
    timeout: float,
    stream: bool,
    keep: bool,
    disturbance: Disturbance | None = None,
    keeps: bool = False,
    begins: Callable[[], None] = lambda: None,
    client: Callable[..., dict[str, Any]] | None = None,
) -> RunResult:
    """One run of a loaded program, with its traces in `directory` for `read_parts`; with `keep` also its logs.

    With `keeps` the evidence of each step is there as well; `begins` is called right before the first process starts,
    and `client` by client tasks, instead of `client_of` the program. The directory holds no earlier run.

    Raises:
        NothingObserved: the program reports nothing.
        RunFailed: a task crashed, hung or vanished unasked, or a fault was not real.
    """
    traces, kept = directory / TRACES, directory / "kept"
    for folder in (traces, kept):
        folder.mkdir(parents=True)
    with (
        viewed(program, directory, case=case) as view,
        Cluster(
            case.topology,
            timeout=timeout,
            stream=stream,
            out=directory / "run" if keep else None,
            relay=is_linked(case),
            **case.on,
            **private_there(program, case),
            env=env_of_servers(program, case, view),
            **({} if disturbance is None else disturbance.options(case.topology, kept, _root(view))),
        ) as cluster,
        record_directory(cluster, case, kept, needed=disturbance is not None) as record,
    ):
        assignment = machine_assignment(case, traces, record, Assignment("", "", seed=seed, view=view, keeps=keeps))
        saves = record if view is None else None
        try:
            work = (client or client_of(program), placed_program(program, case), case, assignment)
            begins()
            with brought_if_failed(traces):
                result = run_linked(cluster, directory, *work, counted=disturbance is None)
            fetch_traces(result.directory, traces)
        except RunFailed as failure:
            if disturbance is not None:
                _note_disturbed(directory, failure.result, saves, disturbance)
            raise
        if disturbance is not None:
            _note_disturbed(directory, result, saves, disturbance)
    _check_finished(case, result)
    if disturbance is None:  # a process that was started again may have had nothing left to do
        _check_observed(program, case, result)
    return result


def _check_observed(program: Program, case: StrategyCase, result: RunResult) -> None:
    """Fail where no client has anything to judge."""
    given = [result[task].value for task in case.clients]
    if not any(each["observed"] for each in given):
        steps = max(each.get("steps", 0) for each in given)
        raise NothingObserved(program.name, script=program.script is not None, steps=steps)


def _check_finished(case: StrategyCase, result: RunResult) -> None:
    """Fail unless every client has come to its end."""
    if unfinished := [task for task in case.clients if result[task].value is None]:
        text = "the plan ended it and nothing started it again, so the training was not finished"
        raise RunFailed(tuple(TaskError(task, "NotFinished", text, at=time.monotonic()) for task in unfinished), result)


def _root(view: FileView | None) -> str:
    """Where this process sees the files of a view, for faults of files."""
    return "" if view is None else f"/proc/{view.holder}/root"


def disturbed_by(
    interrupt_at: int | None,
    resume_strategy: str | StrategyCase | None,
    disturbance: Disturbance | None,
    case: StrategyCase,
    timeout: float,
) -> Interrupting | Disturbance | None:
    """What was asked for besides a plain run, after a check that this machine and this strategy's cluster can do it.

    Args:
        interrupt_at: as of `verify`.
        resume_strategy: as of `verify`.
        disturbance: faults, and what answers them.
        case: the strategy.
        timeout: seconds for the run.

    Raises:
        UsageError: these do not go together.
        MissingHardware: names what is missing.
    """
    step = check_interruption(interrupt_at, resume_strategy)
    resume_case = (
        case if resume_strategy is None else strategy_case(resume_strategy, case.hardware, case.network, case.over)
    )
    for needed in dict.fromkeys((case, resume_case)):
        check_hardware(needed)
    if disturbance is None:
        return None if step is None else Interrupting(step, resume_case)
    if step is not None:
        raise UsageError(
            "a run is either interrupted, with interrupt_at, or has faults; a fault can kill all tasks too"
        )
    disturbance.check(case, timeout)
    return disturbance


def _note_disturbed(directory: Path, result: RunResult, saves: Path | None, disturbance: Disturbance) -> None:
    """Leave beside the traces what the journal of a run under faults knows of its numbers and its saves."""
    save_corrupt_values(directory, result)
    journal = result.directory / JOURNAL
    note_saves(directory / TRACES, saves, journal)
    if disturbance.plan.points:
        shutil.copyfile(journal, directory / TRACES / JOURNAL)


def check_hardware(case: StrategyCase) -> None:
    """Fail before anything starts if the machine lacks what the strategy needs, or what every run needs.

    Raises:
        MissingHardware: names what is missing and where to look.
        UsageError: TensorFlow is too old.
    """
    if why := why_refused():
        raise UsageError(why)
    if case.needs is not None:
        _check_there(case)
    if case.unfit:
        raise MissingHardware(case.unfit)


def _check_there(case: StrategyCase) -> None:
    try:
        there = len(gpus(case.device_kind) if case.gpus_needed else accelerators.tpus(os.environ))
        if there >= max(1, case.gpus_needed):
            return
    except HardwareMissing as error:
        raise MissingHardware(f"{case.name} needs {case.needs}: {error}") from error
    raise MissingHardware(
        f"{case.name} needs {case.needs}, and this machine has {there or 'none'}; see `lockstep doctor`"
    )
