"""Runs a program until it would take its first training step, traces that step, and sees what becomes of its results.

The function that trains is not carried out: stand-ins take the place of its results, and the program goes on with them,
so that it is seen what it does between its steps. Nothing that it trains changes by that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from harness.evidence.step_graph import write_traced
from harness.recording.keras_callback import Reports, make_callback
from harness.recording.tracing.process import TracedProcess
from harness.recording.tracing.trace_notes import TraceNotes
from harness.recording.tracing.tracer import Tracer
from harness.recording.tracing.trial_batches import TrialBatch, write_outcomes


class Tracing(msgspec.Struct, frozen=True):
    """Where what is traced goes: a folder, and how many replicas the strategy has, which the reference has not.

    With `batches`, those of each client, the function is carried out on them, and variables are set back after each.
    """

    path: str
    replicas: int
    batches: tuple[tuple[TrialBatch, ...], ...] = ()


class TraceRecorder:
    """What a program gets as `record`: it hears what is reported, and writes nothing."""

    def __init__(self, noted: TraceNotes, strategy: Any, directory: Path) -> None:
        self.directory = directory
        self.strategy = strategy
        self.observed = 0
        self._noted = noted

    def step(self, **reported: Any) -> None:
        """As of `Recorder`."""
        self._noted.hear(reported)

    def final(self, **reported: Any) -> None:
        """As of `Recorder`."""
        self._noted.hear(reported)

    def keras_callback(self, model: Any) -> Any:
        """As of `Recorder`."""

        def step(*, call: str, per_epoch: bool, means: Any, **reported: Any) -> None:
            self.step(**reported)

        def final(*, call: str, **reported: Any) -> None:
            self.final(**reported)

        return make_callback(Reports(self.strategy, step, final), model)


def trace_client(program: Any, case: Any, assignment: Any, tracing: Tracing) -> dict[str, Any]:
    """Run the program under the strategy until its first training step is traced, and leave that as a file.

    Returns:
        `observed`, 1, as a client of `run_client` does.
    """
    from harness.recording.client import prepared, task_name
    from harness.recording.default_seeds import seeded_generators

    strategy = prepared(case, assignment)
    first = case.clients.index(task_name()) * case.family.local_replicas(strategy, case)
    batches = tracing.batches[case.clients.index(task_name())]
    tracer = Tracer(TracedProcess(task_name(), tracing.replicas, first), strategy, batches)
    record = TraceRecorder(tracer.noted, strategy, Path(assignment.directory))
    train = program.load()
    with seeded_generators(assignment.seed, case.clients.index(task_name())), tracer.active():
        train(strategy, record)
    place = Path(tracing.path) / f"{task_name().replace(':', '-')}.traced"
    if batches:
        write_outcomes(place.with_suffix(".outcomes"), tracer.outcomes)
    else:
        write_traced(place, tracer.result())
    return {"observed": 1, "replicas": strategy.num_replicas_in_sync}
