"""A step that is carried out on one device once more, with noise of the size of rounding."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.recording.client import Assignment
from harness.recording.noise import Noise
from harness.recording.tracing import Batch, Outcome, Tracing, read_outcomes, trace_client
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase, strategy_case
from simulator import Cluster, LockstepError
from simulator.machines.local.scratch import scratch

__all__ = ["noisy_outcomes"]


def noisy_outcomes(
    program: Program, batches: Sequence[Batch], replicas: int, noise: Sequence[int], *, seed: int, timeout: float
) -> list[tuple[Outcome, ...]]:
    """What comes of batches, by each seed of noise; those that fail are left out.

    Args:
        program: whose first training step is carried out.
        batches: as of `harness.running.traced.try_batches`, of the reference.
        replicas: of the strategy.
        noise: as of `harness.recording.noise.Noise`.
        seed: as of `try_batches`.
        timeout: as of `try_batches`.
    """
    case, found = strategy_case("default"), []
    with scratch("noise") as place, contextlib.ExitStack() as stack:
        runs = []
        for each in noise:
            folder = place / f"{each:+}"
            folder.mkdir()
            assignment = Assignment(traces=str(folder), directory=str(folder), seed=seed, noise=each)
            cluster = stack.enter_context(Cluster(case.topology, timeout=timeout))
            tracing = Tracing(str(folder), replicas, (tuple(batches),))
            runs.append((folder, stack.enter_context(cluster.start(_client, program, case, assignment, tracing))))
        for folder, run in runs:
            with contextlib.suppress(LockstepError):
                run.join()
                found += [read_outcomes(path) for path in Path(folder).glob("*.outcomes")]
    return found


def _client(program: Program, case: StrategyCase, assignment: Assignment, tracing: Tracing) -> dict[str, Any]:
    """As `trace_client`, in a task, which sees what the noise has made."""
    assert assignment.noise is not None
    with Noise(assignment.noise).active():
        return trace_client(program, case, assignment, tracing)
