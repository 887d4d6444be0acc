"""The reference of a run: the same program with one replica, which follows the run's evidence step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.evidence.independence import Touch, check_independent, read_touched
from harness.evidence.parts import TRACES
from harness.evidence.reference import Reference, read_reference
from harness.running.reference import FIRST_SEEDS
from harness.running.repeated import OTHER_KERNELS, PLAIN, TF32, Runs, noisy
from harness.subject.program import Program
from simulator import RunFailed
from simulator.machines.local.host import cores
from simulator.machines.local.scratch import scratch

__all__ = ["followed_reference"]


def followed_reference(
    program: Program,
    directory: Path,
    *,
    seed: int,
    perturbed: bool,
    timeout: float,
    seeds: Sequence[int] = FIRST_SEEDS,
    kernels: bool = False,
    tf32: bool = False,
    hardware: str = "cpu",
) -> Reference:
    """Run the program with one replica, each step from what the run's step began with, was given and drew.

    Such a reference belongs to one run, so it is kept nowhere.

    Args:
        program: what has been run.
        directory: holds what the run has left.
        seed: of all these runs.
        perturbed: whether runs with noise are needed.
        timeout: seconds for each run.
        seeds: of the runs with noise.
        kernels: as of `reference_of`.
        tf32: as of `reference_of`.
        hardware: what it computes on.

    Raises:
        NothingObserved: it reported nothing.
        SharedState: one of these runs has read what another one had written.
        RunFailed: the program fails with one replica.
    """
    names = [noisy(noise) for noise in seeds] if perturbed else []
    others = [OTHER_KERNELS] * (perturbed and kernels) + [TF32] * (perturbed and tf32)
    with scratch("followed") as place:
        runs = Runs(program, place, seed, timeout, follows=directory / TRACES, hardware=hardware)
        try:
            # The first two at once, if there is a core for each.
            runs.make_apart([PLAIN, *names[: min(1, cores() - 1)]])
            reruns = runs.furthest(names)
            runs.make_all(others)
        except RunFailed:
            check_independent(program.name, _touched(runs, directory))
            raise
        touched = _touched(runs, directory)
        check_independent(program.name, touched)
        found = read_reference(runs.trace(PLAIN), [*reruns, *map(runs.trace, others)])
    about: dict[str, Any] = {"kernels": kernels, "tf32": tf32, "hardware": hardware}
    return replace(found, touched=touched, **about)


def _touched(runs: Runs, directory: Path) -> dict[str, Sequence[Touch]]:
    """What all runs have done with files, by what a sentence calls each of them."""
    return {**runs.touched(), "the run": read_touched(directory / TRACES)}
