"""One call from a program to a verdict."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from harness._client import Assignment, run_client
from harness.errors import MissingHardware, NothingObserved
from harness.explain import closest, explain
from harness.laws import Case, judge_all
from harness.local_values import with_local_values_marked
from harness.program import Program
from harness.reference import reference_of
from harness.saved import TRACES, save_run
from harness.strategies import StrategyCase, strategy_case
from harness.trace import RunTrace, merge, read_client
from harness.verdict import Verdict
from simulator import Cluster, RunResult, UsageError
from simulator.capabilities import accelerators
from simulator.scratch import scratch

__all__ = ["Tier", "check_hardware", "judge", "on_verdict", "verify"]

Tier = Literal["derived", "exact"]
_SEED = 20
_listeners: list[Callable[[Verdict], None]] = []


def verify(
    program: Callable[..., Any] | str | Program,
    strategy: str | StrategyCase,
    *,
    tier: Tier = "derived",
    hardware: str = "cpu",
    timeout: float = 120.0,
    seed: int = _SEED,
    out: str | Path | None = None,
    stream: bool = False,
) -> Verdict:
    """Run a program under a strategy and under the default strategy, and judge whether the numbers agree.

    Args:
        program: `train(strategy, record)`, or `FILE.py:FUNCTION`.
        strategy: a name such as `mirrored-2`, see `lockstep strategies`.
        tier: `derived` allows for rounding, by a bound computed from perturbed reference runs; `exact` allows for
            nothing and is meant for programs whose every intermediate value is exactly representable.
        hardware: `cpu`, `gpu` or `tpu`; the reference always runs on the CPU.
        timeout: seconds for each of the runs.
        seed: given to Python, NumPy, TensorFlow and Keras before the program starts.
        out: keep traces, logs and the verdict in this directory.
        stream: copy the tasks' output to stderr while they run.

    Returns:
        A `Verdict`: true when consistent; `str` of it is the full explanation.

    Raises:
        UsageError: a program, strategy or option that does not exist, or a program that reports nothing.
        MissingHardware: the strategy needs hardware that is not there.
        RunFailed: a task crashed, hung or vanished; nothing could be judged.
    """
    began = time.monotonic()
    if tier not in ("derived", "exact"):
        raise UsageError(f"tier {tier!r} is unknown; accepted are derived, exact")
    case = strategy_case(strategy, hardware)
    under_test = Program.of(program)
    check_hardware(case)
    reference = reference_of(under_test, seed=seed, perturbed=tier == "derived", timeout=timeout)
    with _directory(out) as directory:
        run, result = _observe(
            under_test, case, directory, seed=seed, timeout=timeout, stream=stream, keep=out is not None
        )
        verdict = judge(
            Case(run=run, reference=reference.trace, tolerance=reference.tolerance()),
            program=under_test.name,
            tasks=_task_summaries(result),
            seconds=time.monotonic() - began,
        )
        if out is not None:
            save_run(directory, verdict, reference)
    for listener in _listeners:
        listener(verdict)
    return verdict


def judge(case: Case, *, program: str, tasks: dict[str, dict[str, Any]], seconds: float) -> Verdict:
    """What all laws say of a recorded run, and the explanation if it is inconsistent. Needs no TensorFlow."""
    case = with_local_values_marked(case)
    verdict = Verdict(
        program=program,
        strategy=case.run.header.strategy,
        judgements=judge_all(case),
        tasks=tasks,
        seconds=seconds,
        tolerance=case.tolerance.name,
    )
    if verdict.consistent:
        return verdict
    found = explain(case)
    return dataclasses.replace(verdict, explanation=found, closest=closest(case) if found is None else None)


@contextlib.contextmanager
def on_verdict(listener: Callable[[Verdict], None]) -> Iterator[None]:
    """Call `listener` with every verdict reached in this context, from whatever depth `verify` is called."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def check_hardware(case: StrategyCase) -> None:
    """Fail before anything starts if the machine lacks what the strategy needs.

    Raises:
        MissingHardware: names what is missing and where to look.
    """
    if case.needs is None:
        return
    there = len(accelerators.tpus(os.environ) if "TPU" in case.needs else accelerators.gpus())
    # One GPU can be split into logical ones, except for NCCL, which wants a device for each replica.
    if there < (case.replicas if case.option == "nccl" else 1):
        raise MissingHardware(
            f"{case.name} needs {case.needs}, and this machine has {there or 'none'}; see `lockstep doctor`"
        )


def _observe(
    program: Program, case: StrategyCase, directory: Path, *, seed: int, timeout: float, stream: bool, keep: bool
) -> tuple[RunTrace, RunResult]:
    traces, kept = directory / TRACES, directory / "kept"
    for folder in (traces, kept):
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier run into the same directory
        folder.mkdir(parents=True)
    with Cluster(case.topology, timeout=timeout, stream=stream, out=directory / "run" if keep else None) as cluster:
        assignment = Assignment(traces=str(traces), directory=str(kept), seed=seed)
        result = cluster.run(run_client, program, case, assignment)
    silent = [task for task in case.clients if not result[task].value["observed"]]
    if len(silent) == len(case.clients):
        raise NothingObserved(program.name)
    return merge([read_client(traces / f"{task.replace(':', '-')}.trace") for task in case.clients]), result


def _task_summaries(result: RunResult) -> dict[str, dict[str, Any]]:
    return {
        name: {"exit": task.exit, "steps": task.steps, "incarnation": task.incarnation, "stopped": task.stopped}
        for name, task in result.items()
    }


@contextlib.contextmanager
def _directory(out: str | Path | None) -> Iterator[Path]:
    if out is not None:
        path = Path(out)
        path.mkdir(parents=True, exist_ok=True)
        yield path
        return
    with scratch("verify") as path:
        yield path
