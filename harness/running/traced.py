"""Runs a program under a strategy and on one device until its first training step is traced, and reads the graphs."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from harness.evidence.trace import chief_first
from harness.evidence.traced import Traced, read_traced
from harness.recording.client import Assignment
from harness.recording.tracing import Tracing, trace_client
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase, strategy_case
from simulator import Cluster, Run
from simulator.machines.local.scratch import scratch

__all__ = ["Graphs", "trace_step"]


@dataclass(frozen=True)
class Graphs:
    """A step as it was traced by all clients, and on one device."""

    clients: tuple[Traced, ...]
    reference: Traced


def trace_step(program: Program, case: StrategyCase, *, seed: int, timeout: float) -> Graphs:
    """Trace the first training step under a strategy and on one device, at the same time.

    Raises:
        RunFailed: one of the two failed, or took longer than `timeout` seconds.
    """
    with scratch("traced") as place, contextlib.ExitStack() as stack:
        runs: list[Run] = []
        for name, under in (("run", case), ("reference", strategy_case("default"))):
            folders = {kind: place / name / kind for kind in ("graphs", "traces", "kept")}
            for folder in folders.values():
                folder.mkdir(parents=True)
            assignment = Assignment(traces=str(folders["traces"]), directory=str(folders["kept"]), seed=seed)
            cluster = stack.enter_context(Cluster(under.topology, timeout=timeout))
            tracing = Tracing(str(folders["graphs"]), case.replicas)
            runs.append(stack.enter_context(cluster.start(trace_client, program, under, assignment, tracing)))
        for run in runs:
            run.join()
        clients, reference = _read(place / "run" / "graphs"), _read(place / "reference" / "graphs")
    return Graphs(clients, reference[0])


def _read(folder: Path) -> tuple[Traced, ...]:
    found = [read_traced(path) for path in folder.glob("*.traced")]
    return tuple(sorted(found, key=lambda traced: chief_first(traced.task)))
