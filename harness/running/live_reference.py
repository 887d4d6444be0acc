"""A reference that follows a run while it goes on, so that the verdict comes soon after the run's last step."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil

from harness.evidence.independence import read_touched
from harness.evidence.parts import TRACES
from harness.evidence.steps import LiveProcesses, Segment, evidence_folder
from harness.running.reference_runs import PLAIN, Runs
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase
from simulator import LockstepError
from simulator.machines.local.host import cores, is_busy, memory_bytes
from simulator.machines.local.scratch import scratch

_SPARE_BYTES = 4 << 30
"""Of memory, from which on a second process may be there beside those of the run."""


class LiveReference:
    """The plain run of a reference, made beside the run that it follows.

    What it would change on the disk waits until the run has ended, as far as `harness.recording.file_access` hears of
    it. If the run has written files, nobody could tell what the reference has read. Then it is ended, and made again.

    Args:
        runs: of the reference, which follow the run's stores as far as they are there.
        over: the file that tells of the run's end.
        traces: where the run leaves its own.
        stack: ends what was begun.
    """

    def __init__(self, runs: Runs, over: Path, traces: Path, stack: contextlib.ExitStack) -> None:
        self._runs: Runs | None = runs
        self._over = over
        self._traces = traces
        self._stack = stack

    def begin(self) -> None:
        """The run is about to begin: there is where it leaves its evidence."""
        assert self._runs is not None
        try:
            self._stack.enter_context(self._runs.beside([PLAIN]))
        except LockstepError:  # the run does not need it
            self._runs = None

    def end(self) -> None:
        """The run has come to its end, and what waits for that may go on."""
        if any(each.writes for each in read_touched(self._traces)):
            self.give_up()
        self._over.touch()

    def taken(self, segments: tuple[Segment, ...]) -> Runs | None:
        """The runs, for who wants such that follow this evidence; for one taker. None where these do not."""
        if (runs := self._runs) is None:
            return None
        ended = tuple(msgspec.structs.replace(each, live=None) for each in runs.follows)
        if ended != segments:
            self.give_up()
            return None
        self._runs = None
        return dataclasses.replace(runs, follows=ended)

    def give_up(self) -> None:
        """End it: it is of no use to anybody."""
        self._runs = None
        self._stack.close()


@contextlib.contextmanager
def live_reference(
    program: Program, case: StrategyCase, directory: Path, *, seed: int, timeout: float, noisy: bool
) -> Iterator[LiveReference | None]:
    """The live reference of a run in one part; None where no core is idle for it, or memory is short.

    Args:
        program: what is run.
        case: under what, on this machine.
        directory: holds what the run leaves.
        seed: of both.
        timeout: seconds for the run, and for the reference after its end.
        noisy: as of `Runs`.
    """
    if cores() == 1 or is_busy() or min(psutil.virtual_memory().available, memory_bytes()) < _SPARE_BYTES:
        yield None
        return
    traces = directory / TRACES
    stores = sorted(evidence_folder(traces / f"{task.replace(':', '-')}.trace") for task in case.clients)
    with scratch("followed") as place, contextlib.ExitStack() as stack:
        live = LiveProcesses(str(place / "over"), case.replicas, case.devices, timeout)
        follows = (Segment(tuple(map(str, stores)), live=live),)
        own = place / "0"
        own.mkdir()
        runs = Runs(program, own, seed, timeout, follows=follows, noisy=noisy, strategy=case.family.reference)
        yield LiveReference(runs, Path(live.over), traces, stack)
