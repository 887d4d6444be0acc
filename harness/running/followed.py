"""The reference of a run: the same program with one replica, which follows the run's evidence step by step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from harness.evidence.independence import Touch, check_independent, read_touched
from harness.evidence.parts import TRACES
from harness.evidence.reference import Reference, read_reference
from harness.running.reference import FIRST_SEEDS, MORE_SEEDS, TF32_NOTE, notes_of
from harness.running.repeated import OTHER_KERNELS, PLAIN, TF32, Runs, noisy
from harness.subject.program import Program
from simulator import LockstepError, RunFailed
from simulator.machines.local.scratch import scratch

__all__ = ["NOISY_RUNS", "Followers", "failure_on_one_device", "following"]

NOISY_RUNS = (1, 2, 5)
"""As many are made one after another, as long as something seems wrong: one, its opposite, and three more before an
accusation that is not plain. A bound of fewer runs is no larger, so that it accepts less.
"""


class Followers:
    """The processes that follow one run: one as it is, and others that show what rounding does to each step.

    Those with noise are made when they are asked for: most right runs differ by no more than a few roundings.

    Args:
        runs: what makes them.
        directory: holds what the run has left.
        strategy: under which it was.
        kernels: whether the run's kernels are not the CPU's; then one follows that computes by other kernels.
        tf32: whether the run multiplies in TF32; then one follows that does so too.
    """

    def __init__(self, runs: Runs, directory: Path, strategy: str, *, kernels: bool, tf32: bool) -> None:
        self._runs = runs
        self._run = f"the run under {strategy}"
        self._directory = directory
        self._others = [OTHER_KERNELS] * kernels + [TF32] * tf32
        self._notes = (TF32_NOTE,) * tf32

    def plain(self) -> Reference:
        """What one replica makes of each step.

        Raises:
            NothingObserved: it reported nothing.
            SharedState: one of these runs has read what another one had written.
            RunFailed: the program fails with one replica.
        """
        return self._made([])

    def with_noise(self, runs: int) -> Reference:
        """The same, with what rounding makes of each step.

        Args:
            runs: with noise, of `NOISY_RUNS`. Those that were made before count.

        Raises:
            SharedState: as of `plain`.
            RunFailed: as of `plain`.
        """
        return self._made([noisy(seed) for seed in (*FIRST_SEEDS, *MORE_SEEDS)[:runs]])

    def _made(self, names: Sequence[str]) -> Reference:
        runs, program = self._runs, self._runs.program
        try:
            runs.make_apart([PLAIN])
            reruns = runs.furthest(names)
            others = self._others if names else []
            runs.make_all(others)
        except RunFailed:
            check_independent(program.name, self._touched)
            raise
        touched = self._touched
        check_independent(program.name, touched)
        found = read_reference(runs.trace(PLAIN), [*reruns, *map(runs.trace, others)])
        notes = (*notes_of(found.trace, None), *self._notes)
        return replace(found, notes=notes, touched=touched, hardware=runs.hardware)

    @property
    def _touched(self) -> dict[str, Sequence[Touch]]:
        """What all runs have done with files, by what a sentence calls each of them."""
        return {**self._runs.touched(), self._run: read_touched(self._directory / TRACES)}


@contextlib.contextmanager
def following(
    program: Program,
    directory: Path,
    strategy: str,
    *,
    seed: int,
    timeout: float,
    kernels: bool = False,
    tf32: bool = False,
    hardware: str = "cpu",
    replicas: int = 1,
) -> Iterator[Followers]:
    """Those who follow a run; they belong to it, and are kept nowhere.

    Args:
        program: what has been run.
        directory: holds what the run has left.
        strategy: under which it was.
        seed: of all these runs.
        timeout: seconds for each of them.
        kernels: as of `Followers`.
        tf32: as of `Followers`.
        hardware: what they compute on.
        replicas: that each of them has: 1, or as many as the run.
    """
    with scratch("followed") as place:
        runs = Runs(program, place, seed, timeout, follows=directory / TRACES, replicas=replicas, hardware=hardware)
        yield Followers(runs, directory, strategy, kernels=kernels, tf32=tf32)


def failure_on_one_device(program: Program, failure: RunFailed, *, seed: int, timeout: float) -> RunFailed | None:
    """How a program fails on one device that has raised in a cluster; None if it does not, or hung there.

    Args:
        program: what was run.
        failure: how it failed.
        seed: of the run.
        timeout: seconds for the run.
    """
    if not failure.root_cause.traceback:
        return None
    with scratch("alone") as place:
        try:
            Runs(program, place, seed, timeout).make([PLAIN])
        except RunFailed as alike:
            return alike if alike.root_cause.kind == failure.root_cause.kind else None
        except LockstepError:
            return None
    return None
