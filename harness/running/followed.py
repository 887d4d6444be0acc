"""The reference of a run: the same program with one replica, which follows the run's evidence step by step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.evidence.independence import Touch, check_independent, read_touched
from harness.evidence.parts import INTERRUPTED, TRACES, read_parts
from harness.evidence.reference import Reference, read_reference
from harness.evidence.steps import Segment
from harness.running.reference import FIRST_SEEDS, MORE_SEEDS, TF32_NOTE, notes_of
from harness.running.repeated import OTHER_KERNELS, PLAIN, TF32, Runs, noisy
from harness.running.resuming import segments_by_counts, segments_by_state, undone
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

    Those with noise are made when they are asked for: most right runs differ by no more than a few roundings. A run in
    parts is followed as the one training that it is; parts of it that did what was done again are followed apart.

    Args:
        program: what has been run.
        directory: holds what the run has left.
        strategy: under which it was.
        place: where their runs go.
        kernels: whether the run's kernels are not the CPU's; then one follows that computes by other kernels.
        tf32: whether the run multiplies in TF32; then one follows that does so too.
        options: `seed`, `timeout`, `hardware` and `replicas`, as of `Runs`.
    """

    def __init__(
        self,
        program: Program,
        directory: Path,
        strategy: str,
        place: Path,
        *,
        kernels: bool,
        tf32: bool,
        **options: Any,
    ) -> None:
        self._program = program
        self._run = f"the run under {strategy}"
        self._directory = directory
        self._place = place
        self._options = options
        self._parts = read_parts(directory)
        self._all: list[Runs] = []
        self._last: Runs | None = None
        self._earlier: dict[int, Runs] = {}
        self._others = [OTHER_KERNELS] * kernels + [TF32] * tf32
        self._notes = (TF32_NOTE,) * tf32

    def plain(self) -> Reference:
        """What one replica makes of each step.

        Raises:
            NothingObserved: it reported nothing.
            SharedState: one of these runs has read what another one had written.
            RunFailed: the program fails with one replica.
        """
        segments = segments_by_state(self._parts)
        self._last, found = self._followed(segments)
        if len(segments) > 1:
            if (counted := segments_by_counts(self._parts, found)) != segments:
                segments = counted
                self._last, found = self._followed(segments)
            for number in undone(self._parts, found):
                self._earlier[number], _ = self._followed(segments[: number + 1])
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

    def _followed(self, segments: tuple[Segment, ...]) -> tuple[Runs, Reference]:
        """One that follows these steps, and what it has recorded."""
        place = self._place / str(len(self._all))
        place.mkdir()
        runs = Runs(self._program, place, follows=segments, **self._options)
        self._all.append(runs)
        return runs, self._reference(runs, [])

    def _made(self, names: Sequence[str]) -> Reference:
        assert self._last is not None
        earlier = {number: self._reference(runs, names) for number, runs in self._earlier.items()}
        found = self._reference(self._last, names)
        check_independent(self._program.name, touched := self._touched)
        notes = (*notes_of(found.trace, None), *self._notes)
        return replace(found, notes=notes, touched=touched, earlier=earlier)

    def _reference(self, runs: Runs, names: Sequence[str]) -> Reference:
        try:
            runs.make_apart([PLAIN])
            reruns = runs.furthest(names)
            others = self._others if names else []
            runs.make_all(others)
        except RunFailed:
            check_independent(self._program.name, self._touched)
            raise
        found = read_reference(runs.trace(PLAIN), [*reruns, *map(runs.trace, others)])
        return replace(found, hardware=runs.hardware)

    @property
    def _touched(self) -> dict[str, Sequence[Touch]]:
        """What all runs have done with files, by what a sentence calls each of them."""
        found: dict[str, Sequence[Touch]] = {}
        for number, runs in enumerate(self._all):
            again = f" (again, {number})" if number else ""
            found |= {f"{run}{again}": touches for run, touches in runs.touched().items()}
        return {**found, self._run: read_touched(self._directory / TRACES, self._directory / INTERRUPTED)}


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
    options: dict[str, Any] = {"seed": seed, "timeout": timeout, "replicas": replicas, "hardware": hardware}
    with scratch("followed") as place:
        yield Followers(program, directory, strategy, place, kernels=kernels, tf32=tf32, **options)


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
