"""Where the clients of a run leave what they record, and find what they have saved: here, or on their machines."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from harness.evidence.parts import TRACES
from harness.recording.client import OWN, Assignment
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase
from simulator import Cluster, RunFailed, UsageError
from simulator.machines.engines.machine_pool import keeping, reached
from simulator.machines.engines.selection import engine_of
from simulator.machines.local.scratch import scratch
from simulator.machines.protocol import LEFT


def check_machines(case: StrategyCase) -> None:
    """See to it that what is asked of machines can be, before any is reached.

    Raises:
        UsageError: it is not understood, or they cannot do what the strategy asks of them.
    """
    if case.over is not None:
        Cluster(case.topology, **case.on)


@contextlib.contextmanager
def on_machines(*cases: StrategyCase) -> Iterator[None]:
    """Reach the machines of these before anything is run, and keep them until the end, for all runs.

    Raises:
        MachinesUnavailable: one cannot be reached, or cannot be used.
        UsageError: they cannot do what the strategy asks of them.
    """
    with contextlib.ExitStack() as stack:
        for case in cases:
            if case.over is not None:
                check_machines(case)
                engine = engine_of(**case.over.options)
                assert engine is not None
                stack.enter_context(keeping(engine))
                if engine.files == "shared":
                    with reached(engine):
                        pass
        yield


def placed_program(program: Program, case: StrategyCase, *, disturbed: bool = False) -> Program:
    """The program as it can be run on the machines of a case.

    Args:
        program: what is to be run.
        case: under what.
        disturbed: whether it is to be killed or started again.

    Raises:
        UsageError: it cannot.
    """
    if case.over is None:
        return program
    if program.script is not None and (why := _why_not(case, disturbed=disturbed)):
        raise UsageError(
            f"{program.name} is a script, and over machines each one keeps what it writes to itself, {why}; verify a "
            "function of it, FILE.py:FUNCTION, or leave machines out"
        )
    return program.sent_from(Path.cwd()) if case.over.files == "ship" else program


def _why_not(case: StrategyCase, *, disturbed: bool) -> str:
    """Why a script cannot be verified so over machines, after what each of them does; empty if it can."""
    if disturbed:
        return "so that tasks which are started again would not find what those of another machine have saved"
    if case.ps:
        return "and a coordinator is told by files what its workers on other machines have computed"
    if case.over is not None and case.over.files == "ship":
        return "in views of directories that have the same names on all of them; files that are sent have others"
    return ""


@contextlib.contextmanager
def record_directory(cluster: Cluster, case: StrategyCase, kept: Path, *, needed: bool) -> Iterator[Path | None]:
    """The `record.directory` of a run: `kept`, or where not all machines see that, a folder of the working directory.

    What is in it at the end is in `kept`.

    Args:
        cluster: that has been entered.
        case: its strategy.
        kept: a directory here.
        needed: whether what one task has saved is to be found by others, on whatever machine they are.

    Yields:
        None where the machines share no directory, so that each has one of its own.

    Raises:
        UsageError: it is needed, and there is none.
    """
    if case.over is None or cluster.sees(kept):
        yield kept
        return
    if case.over.files != "ship":  # the working directory is shared, which has been proved
        with scratch("record", Path.cwd()) as shared:
            try:
                yield shared
            finally:  # also what a run has saved that fails
                shutil.copytree(shared, kept, dirs_exist_ok=True)
        return
    if needed:
        raise UsageError(
            "a training that is started again goes on from what it has saved in record.directory, and the machines "
            "share none: run from a directory that all of them have, with --files shared, or keep the run in one, by "
            "--out"
        )
    yield None


def machine_assignment(case: StrategyCase, traces: Path, directory: Path | None, assignment: Assignment) -> Assignment:
    """What a client is told of where it records.

    Args:
        case: the strategy.
        traces: where the run keeps traces, here.
        directory: as of `record_directory`.
        assignment: the rest.
    """
    where = TRACES if case.over is not None else str(traces)
    return msgspec.structs.replace(assignment, traces=where, directory=OWN if directory is None else str(directory))


@contextlib.contextmanager
def brought_if_failed(traces: Path) -> Iterator[None]:
    """`fetch_traces` what a run has recorded that fails: its numbers may be judged nevertheless."""
    try:
        yield
    except RunFailed as failure:
        fetch_traces(failure.result.directory, traces)
        raise


def fetch_traces(run: Path, traces: Path) -> None:
    """Put the traces that a run has brought from other machines where those of a run of this one are.

    Args:
        run: the run's own directory.
        traces: where they go.
    """
    brought = run / LEFT / TRACES
    if brought.exists():
        shutil.copytree(brought, traces, dirs_exist_ok=True)
