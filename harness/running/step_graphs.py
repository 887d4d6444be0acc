"""Runs a program under a strategy and on one device until its first training step is traced, and reads the graphs."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness.evidence.step_graph import StepGraph, read_traced
from harness.evidence.trace import chief_first
from harness.recording.client import Assignment
from harness.recording.noise import Noise
from harness.recording.tracing import BatchOutcome, Tracing, TrialBatch, read_outcomes, trace_client
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase, strategy_case
from simulator import Cluster, LockstepError, Run
from simulator.machines.local.scratch import scratch

_Read = TypeVar("_Read")


@dataclass(frozen=True)
class StepGraphs:
    """A step as it was traced by all clients, and on one device."""

    clients: tuple[StepGraph, ...]
    reference: StepGraph

    @property
    def seconds(self) -> float:
        """That tracing took where it took longest."""
        return max(each.seconds for each in (*self.clients, self.reference))

    @property
    def operations(self) -> int:
        """How many there are where they are most, with those of the functions that are called."""
        return max(sum(len(graph.nodes) for graph in each.graphs) for each in (*self.clients, self.reference))


@dataclass(frozen=True)
class TrialOutcomes:
    """What came of some batches, of each in all clients, and on one device."""

    clients: tuple[tuple[BatchOutcome, ...], ...]
    reference: tuple[BatchOutcome, ...]


@dataclass(frozen=True)
class _Asked:
    """A process, or those of a strategy, that trace the first step and carry out batches; `noise` is of all of them."""

    name: str
    case: StrategyCase
    batches: Sequence[tuple[TrialBatch, ...]]
    noise: int | None = None


@contextlib.contextmanager
def tracing(
    program: Program, case: StrategyCase, *, seed: int, timeout: float
) -> Iterator[Callable[[float], StepGraphs]]:
    """Trace the first training step under a strategy and on one device, while the caller goes on.

    Yields:
        What waits for the graphs, with the seconds that this may take. It raises `RunFailed` if one of the two failed,
        or took longer than these or than `timeout` seconds.
    """
    asked = _both(case, [() for _ in case.clients], ())
    # On a mesh one graph is that of all devices.
    with _begun(program, 1 if case.family.on_mesh else case.replicas, asked, seed, timeout) as begun:

        def graphs(seconds: float) -> StepGraphs:
            begun.join(seconds=seconds)
            clients, reference = begun.read("*.traced", read_traced)
            return StepGraphs(clients, reference[0])

        yield graphs


def try_batches(
    program: Program,
    case: StrategyCase,
    shares: Sequence[tuple[TrialBatch, ...]],
    whole: tuple[TrialBatch, ...],
    *,
    seed: int,
    timeout: float,
) -> TrialOutcomes:
    """Carry out the first training step on some batches of a few rows.

    Args:
        program: what is run.
        case: under what strategy.
        shares: for each client what its replicas get of each batch.
        whole: what the reference gets of each.
        seed: as of `tracing`.
        timeout: as of `tracing`.

    Raises:
        RunFailed: as of `tracing`.
    """
    asked = _both(case, shares, whole)
    with _begun(program, case.replicas, asked, seed, timeout) as begun:
        begun.join()
        clients, reference = begun.read("*.outcomes", read_outcomes)
    return TrialOutcomes(clients, reference[0])


def noisy_outcomes(
    program: Program, batches: Sequence[TrialBatch], replicas: int, noise: Sequence[int], *, seed: int, timeout: float
) -> list[tuple[BatchOutcome, ...]]:
    """What comes of batches on one device, by each seed of noise; those that fail are left out.

    Args:
        program: whose first training step is carried out.
        batches: as of `try_batches`, of the reference.
        replicas: of the strategy.
        noise: as of `harness.recording.noise.Noise`.
        seed: as of `try_batches`.
        timeout: as of `try_batches`.
    """
    asked = [_Asked(f"{each:+}", strategy_case("default"), [tuple(batches)], each) for each in noise]
    with _begun(program, replicas, asked, seed, timeout) as begun:
        begun.join(may_fail=True)
        return [outcomes for each in begun.read("*.outcomes", read_outcomes) for outcomes in each]


def _both(case: StrategyCase, shares: Sequence[tuple[TrialBatch, ...]], whole: tuple[TrialBatch, ...]) -> list[_Asked]:
    return [_Asked("run", case, shares), _Asked("reference", strategy_case(case.family.reference), [whole])]


@dataclass(frozen=True)
class _Begun:
    """Processes that trace, each with the folder that holds what it leaves."""

    runs: Sequence[tuple[Run, Path]]

    def join(self, *, may_fail: bool = False, seconds: float = math.inf) -> None:
        """Wait until all have ended, for so many seconds at most."""
        deadline = time.monotonic() + seconds
        for run, _ in self.runs:
            left = max(0.0, min(run.options.timeout, deadline - time.monotonic()))
            with contextlib.suppress(LockstepError) if may_fail else contextlib.nullcontext():
                run.join(seconds=left)

    def read(self, pattern: str, read: Callable[[Path], _Read]) -> list[tuple[_Read, ...]]:
        """What the clients of each have left."""
        return [
            tuple(map(read, sorted(folder.glob(pattern), key=lambda path: chief_first(_task(path)))))
            for _, folder in self.runs
        ]


@contextlib.contextmanager
def _begun(program: Program, replicas: int, every: Sequence[_Asked], seed: int, timeout: float) -> Iterator[_Begun]:
    """All of them, running at the same time until the context ends."""
    with scratch("traced") as place, contextlib.ExitStack() as stack:
        runs: list[tuple[Run, Path]] = []
        for asked in every:
            folders = {kind: place / asked.name / kind for kind in ("graphs", "traces", "kept")}
            for folder in folders.values():
                folder.mkdir(parents=True)
            assignment = Assignment(str(folders["traces"]), str(folders["kept"]), seed, asked.noise)
            cluster = stack.enter_context(Cluster(asked.case.topology, timeout=timeout))
            work = Tracing(str(folders["graphs"]), replicas, tuple(asked.batches))
            run = stack.enter_context(cluster.start(_client, program, asked.case, assignment, work))
            runs.append((run, folders["graphs"]))
        yield _Begun(runs)


def _client(program: Program, case: StrategyCase, assignment: Assignment, tracing: Tracing) -> dict[str, Any]:
    """As `trace_client`, in a task, with the noise that it was given."""
    os.nice(10)  # it runs beside the reference, which a verdict waits for
    with contextlib.nullcontext() if assignment.noise is None else Noise(assignment.noise).active():
        return trace_client(program, case, assignment, tracing)


def _task(path: Path) -> str:
    return path.stem.replace("-", ":")
