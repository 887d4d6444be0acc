"""What a run is held against: the same program with one replica, which follows the run where that has left evidence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.evidence.independence import Touch, check_independent, read_touched
from harness.evidence.parts import INTERRUPTED, TRACES, read_parts
from harness.evidence.reference import Reference, ReferenceFiles
from harness.evidence.steps import FOR_ALL, Segment, Standing
from harness.running.cache import kept_in_cache
from harness.running.interpreter import Interpreter
from harness.running.live_reference import LiveReference
from harness.running.other_environment import runs_of_environment
from harness.running.reference_request import FIRST_SEEDS, MORE_SEEDS, ReferenceRequest, make_runs
from harness.running.reference_runs import OTHER_KERNELS, PLAIN, TF32, Runs, noisy
from harness.running.resume_steps import segments_by_counts, segments_by_state, undone
from harness.subject.program import Program
from simulator import LockstepError, RunFailed
from simulator.machines.local.host import is_busy
from simulator.machines.local.scratch import scratch

PAIR = len(FIRST_SEEDS)
"""Runs with noise of which each is the opposite of the other."""
NOISY_RUNS = (PAIR, PAIR + len(MORE_SEEDS))
"""As many are made, as long as something seems wrong: a pair, and three more before an accusation that is not plain. A
bound of fewer runs is no larger, so that it accepts less.
"""

_TF32_NOTE = (
    "TF32 is on: products of float32 have factors with 10 bits of mantissa, and what that changes is allowed for, so "
    "that only larger errors are found than without it"
)

_WORTH_BYTES = 1 << 18
"""Of what a run has left, from which on its reference is made on two cores."""


@dataclass(frozen=True)
class Venue:
    """Where a reference is made, and what of the run's numbers one made there has to allow for.

    Attributes:
        seed: of its runs.
        timeout: seconds for each of them.
        kernels: whether the run's kernels are other ones. How far right ones may differ then counts as noise: one run
            more uses TensorFlow's other kernels.
        tf32: whether the run computes products of float32 in TF32. How far that is from float32 then counts as noise:
            one run more has factors that are rounded so.
        hardware: what it computes on.
        standing: how the replicas of its runs stand for the run's.
        python: of another environment, in which all of its runs are made.
        noisy: whether runs with noise may be wanted, for which the disk has to have room.
        apart: as of `harness.running.reference_runs.Runs`.
        later: the same.
        strategy: as of `harness.running.reference_runs.Runs`.
    """

    seed: int
    timeout: float
    kernels: bool = False
    tf32: bool = False
    hardware: str = "cpu"
    standing: Standing = FOR_ALL
    python: Interpreter | None = None
    noisy: bool = True
    apart: bool = False
    later: bool = False
    strategy: str = "default"


class ReferenceRuns:
    """The runs that one run is held against: one as it is, and others that show what rounding does to each step.

    Those with noise are made when they are asked for: most right runs differ by no more than a few roundings. A run in
    parts is followed as the one training that it is; parts of it that did what was done again are followed apart. Runs
    that follow nothing are kept for who asks for the same program again.

    Args:
        program: what has been run.
        directory: holds what the run has left.
        strategy: under which it was.
        venue: where they are made.
        place: where those go that follow.
        follows: whether to follow the run if it has left evidence.
        first: whether only its first part is followed.
        live: has followed it while it went on.
        stack: ends what is under way and was not needed.
    """

    def __init__(
        self,
        program: Program,
        directory: Path,
        strategy: str,
        venue: Venue,
        place: Path,
        stack: contextlib.ExitStack,
        *,
        follows: bool = True,
        first: bool = False,
        live: LiveReference | None = None,
    ) -> None:
        self._program = program
        self._live = live
        self._venue = venue
        self._run = f"the run under {strategy}"
        self._directory = directory
        self._place = place
        self._stack = stack
        self._parts = read_parts(directory)
        segments = segments_by_state(self._parts) if follows else ()
        self._segments = segments[:1] if first else segments
        self._touched: dict[str, Sequence[Touch]] = {}
        self._known: dict[tuple[Path, ReferenceRequest], Reference] = {}
        self._count = 0
        self._last: Runs | None = None
        self._earlier: dict[int, Runs] = {}

    @property
    def follow(self) -> bool:
        """Whether they follow the run."""
        return bool(self._segments)

    def plain(self, *, derived: bool = False) -> Reference:
        """What one replica makes of each step.

        Args:
            derived: whether noise will be asked for if this leaves something open; it may then be under way.

        Raises:
            NothingObserved: it reported nothing.
            SharedState: one of these runs has read what another one had written.
            RunFailed: the program fails with one replica.
        """
        if self.follow:
            self._follow(beside=derived)
        return self.with_noise(0)

    def with_noise(self, runs: int, *, sure: bool = False) -> Reference:
        """The same, with what rounding makes of each step.

        Args:
            runs: with noise, of `NOISY_RUNS`. Those that were made before count.
            sure: as of `ReferenceRequest`.

        Raises:
            NotReproducible: two equal runs differ.
            SharedState: as of `plain`.
            RunFailed: as of `plain`.
        """
        others = [OTHER_KERNELS] * self._venue.kernels + [TF32] * self._venue.tf32
        wanted = ReferenceRequest(runs, tuple(others) if runs else (), sure)
        earlier = {number: self._made(each, wanted) for number, each in self._earlier.items()}
        found = self._free(wanted) if self._last is None else self._made(self._last, wanted)
        notes = (*found.notes, *((_TF32_NOTE,) if self._venue.tf32 else ()))
        return replace(found, notes=notes, touched=self._checked(), earlier=earlier)

    @property
    def _is_worth_it(self) -> bool:
        """Whether a run with noise may be made while the one without comes to its end, and is ended if not needed.

        On the core that the run has left, unless others have taken it. A small training is over before it pays.
        """
        if is_busy():
            return False
        traces = self._directory / TRACES
        kept = sum(each.stat().st_size for each in traces.rglob("*") if each.is_file())
        return kept >= _WORTH_BYTES

    def _follow(self, *, beside: bool) -> None:
        """Find out where the parts of the run stand, and what has to be followed apart."""
        segments = self._segments
        if self._has_followed(segments, beside=beside):
            return
        self._last, found = self._following(segments)
        if len(segments) == 1:
            return
        if (counted := segments_by_counts(self._parts, found)) != segments:
            segments = counted
            self._last, found = self._following(segments)
        for number in undone(self._parts, found):
            self._earlier[number], _ = self._following(segments[: number + 1])

    def _has_followed(self, segments: tuple[Segment, ...], *, beside: bool) -> bool:
        """Whether the live reference has come to its end; if beside the run it lacked something, it is made again."""
        runs = None if self._live is None else self._live.taken(segments)
        if runs is None:
            return False
        with contextlib.suppress(LockstepError), contextlib.ExitStack() as stack:
            if beside and self._is_worth_it:
                stack.enter_context(runs.beside(list(map(noisy, FIRST_SEEDS))))
            self._made(runs, ReferenceRequest())
            self._last = runs
            self._stack.push(stack.pop_all())
        return self._last is runs

    def _following(self, segments: tuple[Segment, ...]) -> tuple[Runs, Reference]:
        place = self._place / str(self._count)
        place.mkdir()
        venue = self._venue
        runs = Runs(
            self._program,
            place,
            venue.seed,
            venue.timeout,
            follows=segments,
            standing=venue.standing,
            hardware=venue.hardware,
            noisy=venue.noisy,
            apart=venue.apart,
            later=venue.later,
            strategy=venue.strategy,
        )
        self._count += 1
        return runs, self._made(runs, ReferenceRequest())

    def _free(self, wanted: ReferenceRequest) -> Reference:
        found = undisturbed(self._program, self._venue, wanted, known=self._checked())
        self._touched |= found.touched
        return found

    def _made(self, runs: Runs, wanted: ReferenceRequest) -> Reference:
        if (known := self._known.get((runs.directory, wanted))) is not None:
            return known
        try:
            left = _made(runs, wanted, self._venue.python)
        except RunFailed:
            self._checked(runs.touched())
            raise
        again = f" (again, {runs.directory.name})" if runs.directory.name != "0" else ""
        self._touched |= {f"{run}{again}": touches for run, touches in left.touched.items()}
        found = self._known[runs.directory, wanted] = _reference(left, self._venue)
        return found

    def _checked(self, more: dict[str, Sequence[Touch]] | None = None) -> dict[str, Sequence[Touch]]:
        """What all runs have done with files, by what a sentence calls each of them.

        Raises:
            SharedState: one has read what another one had written.
        """
        run = {self._run: read_touched(self._directory / TRACES, self._directory / INTERRUPTED)}
        found = {**self._touched, **(more or {}), **run}
        check_independent(self._program.name, found)
        return found


@contextlib.contextmanager
def reference_runs(
    program: Program, directory: Path, strategy: str, venue: Venue, **parts: Any
) -> Iterator[ReferenceRuns]:
    """Those of one run; the arguments are those of `ReferenceRuns`, with `parts` for `follows`, `first` and `live`."""
    with scratch("followed") as place, contextlib.ExitStack() as stack:
        yield ReferenceRuns(program, directory, strategy, venue, place, stack, **parts)


def undisturbed(
    program: Program, venue: Venue, wanted: ReferenceRequest, *, known: dict[str, Sequence[Touch]] | None = None
) -> Reference:
    """A reference that follows no run.

    Args:
        program: what is run.
        venue: where.
        wanted: besides the plain run.
        known: what other runs have done with files, by what a sentence calls each.

    Raises:
        Abstained: its numbers differ from run to run.
        NothingObserved: the program reported nothing.
        SharedState: one run has read what another one had written.
        RunFailed: the program fails on one device.
    """
    told: dict[str, Any] = {"hardware": venue.hardware, "strategy": venue.strategy}
    with kept_in_cache(program, venue.seed, **told, python=venue.python) as directory:
        runs = Runs(program, directory, venue.seed, venue.timeout, **told, noisy=venue.noisy)
        try:
            left = _made(runs, wanted, venue.python)
        except LockstepError:  # what another run had left may be why
            check_independent(program.name, {**(known or {}), **runs.touched()})
            raise
        check_independent(program.name, {**(known or {}), **left.touched})
        return _reference(left, venue)


def _made(runs: Runs, wanted: ReferenceRequest, python: Interpreter | None) -> ReferenceFiles:
    return make_runs(runs, wanted) if python is None else runs_of_environment(runs, wanted, python)


def _reference(left: ReferenceFiles, venue: Venue) -> Reference:
    python = None if venue.python is None else venue.python.path
    return replace(left.read(), hardware=venue.hardware, python=python, standing=venue.standing)


def failure_on_one_device(
    program: Program, failure: RunFailed, strategy: str, *, seed: int, timeout: float
) -> RunFailed | None:
    """How a program fails on one device that has raised in a cluster; None if it does not, or hung there.

    Args:
        program: what was run.
        failure: how it failed.
        strategy: of one device.
        seed: of the run.
        timeout: seconds for the run.
    """
    if not failure.root_cause.traceback:
        return None
    with scratch("alone") as place:
        try:
            Runs(program, place, seed, timeout, strategy=strategy).make([PLAIN])
        except RunFailed as alike:
            return alike if alike.root_cause.kind == failure.root_cause.kind else None
        except LockstepError:
            return None
    return None
