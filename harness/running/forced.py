"""A reference that follows a run: after each step its variables are set to the run's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.evidence.independence import Touch, check_independent, read_touched
from harness.evidence.parts import TRACES
from harness.evidence.reference import Reference, read_reference
from harness.evidence.trace import Forced, RunTrace, chief_first
from harness.running.reference import FIRST_SEEDS, MORE_SEEDS
from harness.running.repeated import OTHER_KERNELS, PLAIN, TF32, Runs, noisy
from harness.subject.program import Program
from simulator import RunFailed, UsageError
from simulator.machines.local.scratch import scratch

__all__ = ["check_forcible", "forced_reference"]

_NAMES_SHOWN = 4


def check_forcible(program: str, reference: RunTrace) -> None:
    """Fail before the run if there is nothing that a reference could be set to.

    Raises:
        UsageError: no step records variables.
    """
    if not any(step.variables for step in reference.clients[0].steps):
        raise UsageError(
            f"{program} records no variables, so a reference cannot be set to the run's after each step; give them to "
            "record.step(variables=...), for example [*model.variables, *optimizer.variables], or use "
            "record.keras_callback(model)"
        )


def forced_reference(
    program: Program, directory: Path, reference: Reference, *, seed: int, perturbed: bool, timeout: float
) -> Reference:
    """Run the program under the default strategy again, each step from the variables that a run has recorded.

    Such a reference belongs to one run, so it is kept nowhere.

    Args:
        program: what has been run.
        directory: holds the traces of the run.
        reference: that goes its own way, of which it is known that it can be repeated.
        seed: of all these runs.
        perturbed: whether runs with noise are needed.
        timeout: seconds for each run.

    Raises:
        SharedState: one of these runs has read what another one had written.
        RunFailed: the program fails when it goes on from these variables.
    """
    # Not in two looks: it is needed where there is something to be found.
    names = [noisy(noise) for noise in (*FIRST_SEEDS, *MORE_SEEDS[:2])] if perturbed else []
    others = [OTHER_KERNELS] * (perturbed and reference.kernels) + [TF32] * (perturbed and reference.tf32)
    with scratch("forced") as place:
        forced = _first_client(directory)
        runs = Runs(program, place, seed, timeout, reference.threads, forced=forced, hardware=reference.hardware)
        try:
            runs.make([PLAIN])
            reruns = runs.furthest(names)
            runs.make_all(others)
        except RunFailed:
            check_independent(program.name, _touched(runs, directory, reference))
            raise
        touched = _touched(runs, directory, reference)
        check_independent(program.name, touched)
        found = read_reference(runs.trace(PLAIN), [*reruns, *map(runs.trace, others)])
    notes = (*reference.notes, *_notes(found.trace))
    return replace(
        found,
        notes=notes,
        touched=touched,
        threads=reference.threads,
        kernels=reference.kernels,
        tf32=reference.tf32,
        hardware=reference.hardware,
    )


def _first_client(directory: Path) -> Path:
    """The trace of the client whose variables are compared with the reference's: the chief's, or worker 0's."""
    traces = (directory / TRACES).glob("*.trace")
    return min(traces, key=lambda trace: chief_first(trace.stem.replace("-", ":")))


def _touched(runs: Runs, directory: Path, reference: Reference) -> dict[str, Sequence[Touch]]:
    """What all runs have done with files, by what a sentence calls each of them."""
    own = {f"{name} that follows the run": touches for name, touches in runs.touched().items()}
    return {**reference.touched, "the run": read_touched(directory / TRACES), **own}


def _notes(trace: RunTrace) -> tuple[str, ...]:
    """What a reader of the verdict should know of how the reference could follow."""
    forced = trace.clients[0].counters.forced or Forced()
    found = []
    if forced.steps < forced.due:
        found.append(
            f"the reference could be set to the run's variables after {forced.steps} of {forced.due} steps only: the "
            "run recorded none at the others, and a step after one of those is not judged by itself"
        )
    found += [f"not set to the run's: {sentence}" for sentence in forced.left]
    for owner, names in forced.unrecorded.items():
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        shown = ", ".join(map(repr, names[:_NAMES_SHOWN])) + more
        found.append(
            f"variables of {owner} change and are not recorded, so that they could not be set to the run's: {shown}; "
            "what a mistake leaves in them shows at later steps too"
        )
    if forced.not_finite is not None:
        found.append(
            f"after step {forced.not_finite} the run's own variables are not finite, from which the reference went on"
        )
    return tuple(found)
