"""Runs a program under a strategy and on one device until its first training step is traced, and reads the graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from harness.evidence.trace import chief_first
from harness.evidence.traced import Traced, read_traced
from harness.recording.client import Assignment
from harness.recording.tracing import Batch, Outcome, Tracing, read_outcomes, trace_client
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase, strategy_case
from simulator import Cluster, Run
from simulator.machines.local.scratch import scratch

__all__ = ["Graphs", "Tried", "trace_step", "try_batches"]

_Read = TypeVar("_Read")


@dataclass(frozen=True)
class Graphs:
    """A step as it was traced by all clients, and on one device."""

    clients: tuple[Traced, ...]
    reference: Traced


@dataclass(frozen=True)
class Tried:
    """What came of some batches, of each in all clients, and on one device."""

    clients: tuple[tuple[Outcome, ...], ...]
    reference: tuple[Outcome, ...]


def trace_step(program: Program, case: StrategyCase, *, seed: int, timeout: float) -> Graphs:
    """Trace the first training step under a strategy and on one device, at the same time.

    Raises:
        RunFailed: one of the two failed, or took longer than `timeout` seconds.
    """
    nothing: list[tuple[Batch, ...]] = [() for _ in case.clients]
    clients, reference = _both(program, case, seed, timeout, nothing, (), "*.traced", read_traced)
    return Graphs(clients, reference[0])


def try_batches(
    program: Program,
    case: StrategyCase,
    shares: Sequence[tuple[Batch, ...]],
    whole: tuple[Batch, ...],
    *,
    seed: int,
    timeout: float,
) -> Tried:
    """Carry out the first training step on some batches of a few rows.

    Args:
        program: what is run.
        case: under what strategy.
        shares: for each client what its replicas get of each batch.
        whole: what the reference gets of each.
        seed: as of `trace_step`.
        timeout: as of `trace_step`.

    Raises:
        RunFailed: as of `trace_step`.
    """
    clients, reference = _both(program, case, seed, timeout, shares, whole, "*.outcomes", read_outcomes)
    return Tried(clients, reference[0])


def _both(
    program: Program,
    case: StrategyCase,
    seed: int,
    timeout: float,
    shares: Sequence[tuple[Batch, ...]],
    whole: tuple[Batch, ...],
    pattern: str,
    read: Callable[[Path], _Read],
) -> tuple[tuple[_Read, ...], tuple[_Read, ...]]:
    with scratch("traced") as place, contextlib.ExitStack() as stack:
        runs: list[Run] = []
        for name, under, batches in (("run", case, shares), ("reference", strategy_case("default"), [whole])):
            folders = {kind: place / name / kind for kind in ("graphs", "traces", "kept")}
            for folder in folders.values():
                folder.mkdir(parents=True)
            assignment = Assignment(traces=str(folders["traces"]), directory=str(folders["kept"]), seed=seed)
            cluster = stack.enter_context(Cluster(under.topology, timeout=timeout))
            tracing = Tracing(str(folders["graphs"]), case.replicas, tuple(batches))
            runs.append(stack.enter_context(cluster.start(trace_client, program, under, assignment, tracing)))
        for run in runs:
            run.join()
        found = []
        for name in ("run", "reference"):
            paths = sorted((place / name / "graphs").glob(pattern), key=lambda path: chief_first(_task(path)))
            found.append(tuple(map(read, paths)))
    return found[0], found[1]


def _task(path: Path) -> str:
    return path.stem.replace("-", ":")
