"""What a client task executes where an unmodified script is verified: the script, maybe as its own reference."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from harness.evidence.independence import notes_of
from harness.evidence.links import BUILT
from harness.evidence.trace import Header
from harness.recording.client import (
    Assignment,
    bound_threads,
    check_shape,
    folder_of,
    own_devices,
    seed_everything,
    task_name,
    uses_onednn,
    versions,
)
from harness.recording.clock import moved_clock
from harness.recording.noise import Noise
from harness.recording.recorder import Recorder
from harness.recording.scripts.adopting import adopting
from harness.recording.scripts.doubts import doubts
from harness.recording.scripts.execute import execute
from harness.recording.scripts.one_replica import one_replica
from harness.recording.scripts.stand_ins import StandIns
from harness.recording.touched import note_files
from harness.recording.unseeded import own_shuffles, seeded_generators
from harness.recording.watch import Watch
from harness.recording.witness import Witness, all_seams
from harness.recording.work import Working, working
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase
from simulator.agent import current
from simulator.agent.private_files import enter_view

__all__ = ["Ended", "run_script"]


class Ended(BaseException):
    """Ends a script whose first steps are done. Nothing that it catches, as long as it catches no exit."""


class _Session:
    """A script that is being run: what begins when it builds its strategy."""

    def __init__(self, program: Program, case: StrategyCase, stack: contextlib.ExitStack) -> None:
        assert program.script is not None
        self.script = program.script
        self.case = case
        self.stack = stack
        self.recorder: Recorder | None = None
        self.strategy: Any = None
        self.work: Working | None = None
        self.cut: int | None = None

    def built(self, strategy: Any) -> None:
        """Take a strategy that the script has built for that of the run.

        Raises:
            RuntimeError: it is another one than the run was asked for, or the second one.
        """
        name, kind = self.script.name, type(strategy).__name__
        if self.strategy is not None:
            raise RuntimeError(f"{name} builds a second strategy, {kind}: only scripts with one can be verified")
        asked = self.script.strategy
        if kind not in _CLASSES.get(asked.split("-")[0], (kind,)):
            raise RuntimeError(f"{name} builds a {kind}, which is not what {asked} is; name its strategy by --strategy")
        check_shape(strategy, self.case)
        self.strategy = strategy
        assert self.recorder is not None
        self.recorder.adopt(strategy)
        self.work = self.stack.enter_context(working(strategy))
        if (task := current()) is not None:
            task.gate(BUILT)

    def stepped(self, index: int) -> None:
        """Hear of a step, and end the script after the last one that is to be judged.

        Raises:
            Ended: that was it.
        """
        if index == self.script.first:
            self.cut = index
            raise Ended


_CLASSES = {
    "mirrored": ("MirroredStrategy",),
    "multi_worker": ("CollectiveAllReduceStrategy", "_CollectiveAllReduceStrategyExperimental"),
    "central_storage": ("CentralStorageStrategy",),
}


def run_script(program: Program, case: StrategyCase, assignment: Assignment) -> dict[str, Any]:
    """Run the script of a program and leave a trace file.

    Args:
        program: a script.
        case: the strategy that it shall build; `default` where it is its own reference.
        assignment: as of `run_client`; no forcing.

    Returns:
        `observed`, the number of steps in which something could be judged, and `replicas`, as TensorFlow counts them.

    Raises:
        RuntimeError: the script builds no strategy, another one, or one that has not the shape of its case.
    """
    assert program.script is not None
    if assignment.view is not None:
        enter_view(assignment.view.holder)
    bound_threads(assignment.threads)
    seed_everything(assignment.seed)
    noise = None if assignment.noise is None else Noise(assignment.noise)
    watch = None if assignment.watching is None else Watch(assignment.watching, task_name(), case.replicas)
    trace = folder_of(assignment) / f"{task_name().replace(':', '-')}.trace"
    stand_ins = StandIns(program.script)
    with contextlib.ExitStack() as stack:
        session = _Session(program, case, stack)
        recorder = session.recorder = Recorder(
            None,
            _header(case, assignment),
            trace=trace,
            directory=Path(assignment.directory),
            noise=noise,
            watch=watch,
            witness=Witness(None, case.devices, all_seams(), noise, watch),
            stepped=session.stepped,
        )
        private = [] if assignment.view is None else map(Path, assignment.view.covered)
        note_files(notes_of(trace), [Path(assignment.traces), Path(assignment.directory), *private])
        client = case.clients.index(task_name())
        stack.enter_context(moved_clock(assignment.ahead))
        drawn = stack.enter_context(seeded_generators(assignment.seed, client))
        if case.name == "default":
            stack.enter_context(one_replica(stand_ins))
            stack.enter_context(doubts(stand_ins))
        stack.enter_context(adopting(session.built))
        if noise is not None:
            stack.enter_context(noise.active())
        if case.family.draws_apart:
            stack.enter_context(own_shuffles(client))
        if watch is not None:
            stack.enter_context(watch.active())
        # Last, so that it sees what the script gets.
        with contextlib.suppress(Ended):
            stack.enter_context(recorder.witnessing())
            execute(program.script)
            stack.close()
    if session.work is None:
        raise RuntimeError(f"{program.name} has built no strategy, so there is nothing to compare")
    done = session.work.counted([])
    recorder.close(unseeded=drawn.times, work=done, stand_ins=stand_ins.found, cut=session.cut)
    return {"observed": recorder.observed, "replicas": session.strategy.num_replicas_in_sync}


def _header(case: StrategyCase, assignment: Assignment) -> Header:
    return Header(
        task=task_name(),
        incarnation=assignment.incarnation,
        strategy=case.name,
        replicas=case.replicas,
        local_replicas=case.devices,
        clients=len(case.clients),
        seed=assignment.seed,
        versions=versions(),
        devices=own_devices(),
        onednn=uses_onednn(),
    )
