"""What a client task executes where an unmodified script is verified: the script, maybe as its own reference."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import msgspec

from harness.evidence.counters import DevicePlacement
from harness.evidence.independence import notes_of
from harness.evidence.links import BUILT
from harness.evidence.restart_files import note_files_found
from harness.evidence.trace import Header
from harness.recording.client import (
    Assignment,
    around_program,
    as_here,
    bound_threads,
    check_shape,
    folder_of,
    of_steps,
    own_devices,
    own_folders,
    seed_everything,
    task_name,
    until_over,
    uses_onednn,
    versions,
)
from harness.recording.clock import moved_clock
from harness.recording.closure_files import Files
from harness.recording.default_seeds import DatasetDraws, own_draws, seeded_generators
from harness.recording.file_access import note_files
from harness.recording.fixed_draws import fixed_draws
from harness.recording.input_pipelines import leave_iterators
from harness.recording.noise import Noise
from harness.recording.patches import patched
from harness.recording.placement import placement_of
from harness.recording.recorder import Recorder
from harness.recording.scripts.cells import run_cells
from harness.recording.scripts.design_differences import design_differences
from harness.recording.scripts.device_counts import length
from harness.recording.scripts.joins import joins_noted
from harness.recording.scripts.one_replica import one_replica
from harness.recording.scripts.scope_errors import compiled_named, unscoped_named
from harness.recording.scripts.stand_ins import BuildsNoStrategy, StandIns
from harness.recording.scripts.strategy_adoption import adopt_strategy
from harness.recording.serial_closures import serial_closures
from harness.recording.watch import Watch
from harness.recording.witness import Witness, all_seams
from harness.recording.work import WorkCounts, working
from harness.subject.program import Program
from harness.subject.script import Script
from harness.subject.strategies import StrategyCase
from simulator.agent import current, now
from simulator.agent.private_files import enter_view

_BETWEEN_STARTS = 100_003
"""Between the seeds of a task and those of the same one when it is started again."""
_BY_HAND = 10
"""So many times as many steps are judged of a script that takes no gradients: it may only have set what it trains."""


class ScriptEnded(BaseException):
    """Ends a script whose first steps are done. Nothing that it catches, as long as it catches no exit."""


class _Session:
    """A script that is being run: what begins when it builds its strategy."""

    def __init__(self, program: Program, case: StrategyCase, stack: contextlib.ExitStack) -> None:
        assert program.script is not None
        self.script = program.script
        self.case = case
        self.stack = stack
        self.recorder: Recorder | None = None
        self.witness: Witness | None = None
        self.strategy: Any = None
        self.others: list[str] = []
        self.in_data = DatasetDraws()
        self.work: WorkCounts | None = None
        self.cut: int | None = None
        self.steps = self.by_hand = 0

    def record(self, assignment: Assignment, trace: Path, noise: Noise | None, watch: Watch | None) -> Witness:
        """Make what records, into a trace file, and give what it sees by."""
        header = msgspec.structs.replace(_header(self.case, assignment), at_once=self.script.disturbed)
        seen = of_steps(self.case, assignment, trace, header)
        witness = Witness(None, self.case.devices, all_seams(), noise, watch, at_once=self.script.disturbed, **seen)
        self.witness = witness
        self.recorder = Recorder(
            None,
            header,
            trace=trace,
            directory=Path(assignment.directory),
            beside=assignment.beside,
            follows=bool(assignment.follows),
            noise=noise,
            watch=watch,
            witness=witness,
            stepped=self.stepped,
        )
        return witness

    def built(self, strategy: Any) -> None:
        """Take a strategy that the script has built for that of the run, if it is of the kind that was asked for.

        Raises:
            BuildsNoStrategy: it is on other servers than those of the run, or a coordinator's second one.
            RuntimeError: it has another shape than the run.
        """
        name, kind = self.script.name, type(strategy).__name__
        if self.strategy is not None and self.case.ps:
            raise BuildsNoStrategy(f"{name} builds a second strategy, {kind}; a script with a coordinator has one")
        asked = self.script.strategy
        kinds = {each.__name__ for each in type(strategy).__mro__}  # a library's may be derived from TensorFlow's
        if kinds.isdisjoint(_CLASSES.get(asked.split("-")[0], (kind,))):
            self._let_be(
                strategy, f"{name} has no strategy but {kind}, {_instead(kind, asked, len(self.case.clients))}"
            )
            return
        if self.case.ps:
            _check_cluster(name, strategy)
        check_shape(strategy, self.case)
        assert self.recorder is not None
        self.recorder.adopt(strategy)
        if self.work is not None:
            self.work.strategies.append(strategy)
            return
        self.strategy = strategy
        self.work = self.stack.enter_context(working(strategy))
        if (task := current()) is not None:
            task.gate(BUILT)

    def _let_be(self, strategy: Any, why: str) -> None:
        """Leave a strategy of another kind to the script, which may load on one device what it has trained on several.

        Who uses it before there is one of the kind that was asked for trains by it: then `why` is raised.
        """
        self.others.append(why)

        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def used(*args: Any, **options: Any) -> Any:
                if self.strategy is None:
                    raise BuildsNoStrategy(why)
                return original(*args, **options)

            return used

        for name in ("scope", "run"):
            setattr(strategy, name, around(getattr(strategy, name)))

    def placement(self) -> DevicePlacement | None:
        """Where replicas stood on devices; it reports no variables, of which that could be asked."""
        return placement_of(self.strategy, [], task_name()) if self.case.on_device else None

    def stepped(self, index: int) -> None:
        """Hear of a step, and end the script after the last one that is to be judged.

        Raises:
            Ended: that was it.
        """
        self.steps = index
        if (task := current()) is not None:
            task.step(index)
        if self.witness is not None and self.witness.takes_gradients:
            last = self.by_hand + self.script.first
        else:
            self.by_hand, last = index, _BY_HAND * self.script.first
        # One that is started again begins to count at 1, so that a run which is to be killed comes to its own end.
        if index == last and not (self.script.disturbed and self.case.name != "default"):
            self.cut = index
            leave_iterators()
            raise ScriptEnded


def _check_cluster(name: str, strategy: Any) -> None:
    """Fail if a coordinator has brought servers of its own, of which nothing is known."""
    import tensorflow as tf

    given = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec().as_dict()
    taken = strategy._cluster_resolver.cluster_spec().as_dict()  # noqa: SLF001 - nothing public tells
    if any(taken.get(job) != given.get(job) for job in ("worker", "ps")):
        raise BuildsNoStrategy(
            f"{name} builds its strategy on other servers than those of TF_CONFIG; have it use "
            "tf.distribute.cluster_resolver.TFConfigClusterResolver()"
        )


def _instead(kind: str, asked: str, clients: int) -> str:
    """What is wrong with a strategy of this kind, and what to do."""
    if clients > 1:
        return f"so that each of the {clients} workers trains alone; build a tf.distribute.MultiWorkerMirroredStrategy"
    known = next((name for name, kinds in _CLASSES.items() if kind in kinds), None)
    how = "" if known is None else f"; verify it by --strategy {known}-{asked.rpartition('-')[2]}"
    return f"which is not what {asked} is{how}"


_CLASSES = {
    "mirrored": ("MirroredStrategy",),
    "multi_worker": ("CollectiveAllReduceStrategy", "_CollectiveAllReduceStrategyExperimental"),
    "central_storage": ("CentralStorageStrategy",),
    "parameter_server": ("ParameterServerStrategyV2",),
}


def _watch(assignment: Assignment, case: StrategyCase) -> Watch | None:
    """What watches a step, if that was asked for."""
    if assignment.watching is None:
        return None
    files = Files(Path(assignment.directory) / "watched") if case.ps else None
    return Watch(assignment.watching, task_name(), case.replicas, files)


def run_script(program: Program, case: StrategyCase, assignment: Assignment) -> dict[str, Any]:
    """Run the script of a program and leave a trace file.

    Args:
        program: a script.
        case: the strategy that it shall build; `default` where it is its own reference.
        assignment: as of `run_client`.

    Returns:
        As of `Recorder.counts`, and `replicas`, as TensorFlow counts them.

    Raises:
        BuildsNoStrategy: the script builds none of the kind of its case.
        RuntimeError: it builds one that has not the shape of its case.
    """
    assert program.script is not None
    if (assignment := as_here(assignment)).view is not None:
        enter_view(assignment.view.holder)
    bound_threads(assignment.threads)
    # What a script does not seed itself it draws anew when it is started again.
    seed_everything(assignment.seed + _BETWEEN_STARTS * _started(assignment), case.clients.index(task_name()))
    noise = None if assignment.noise is None else Noise(assignment.noise)
    watch = _watch(assignment, case)
    trace = folder_of(assignment) / f"{task_name().replace(':', '-')}.trace"
    if trace.parent != Path(assignment.traces) and assignment.view is not None:
        note_files_found(trace.parent, task_name(), assignment.view.files(), now())
    stand_ins = StandIns(program.script)
    with contextlib.ExitStack() as stack:
        session = _Session(program, case, stack)
        witness = session.record(assignment, trace, noise, watch)
        recorder = session.recorder
        assert recorder is not None
        note_files(notes_of(trace), own_folders(assignment, trace), until_over(assignment))
        stack.enter_context(moved_clock(assignment.ahead, assignment.rate))
        number = case.clients.index(task_name())
        drawn = stack.enter_context(seeded_generators(assignment.seed, number, apart=assignment.apart))
        stack.enter_context(fixed_draws(program.fixed_draws))
        at_end = _around(session, assignment, trace.parent, stand_ins, witness)
        stack.enter_context(adopt_strategy(session.built, stand_ins.line))
        stack.enter_context(unscoped_named(stand_ins))
        stack.enter_context(compiled_named(stand_ins))
        for one in (noise, watch):
            if one is not None:
                stack.enter_context(one.active())
        # Last, so that it sees what the script gets.
        with contextlib.suppress(ScriptEnded):
            stack.enter_context(recorder.witnessing())
            _execute(program.script, {"len": length} if _is_reference(case, assignment) else {})
            at_end()
            stack.close()
    if session.work is None:
        if session.others:
            raise BuildsNoStrategy(session.others[0])
        alone = f", so that each of the {clients} workers trains alone" if (clients := len(case.clients)) > 1 else ""
        which = "MultiWorkerMirroredStrategy" if alone else "Strategy"
        raise BuildsNoStrategy(f"{program.name} has built no strategy{alone}; build a tf.distribute.{which}")
    done, placed = session.work.counted([]), session.placement()
    draws = {"unseeded": drawn.times, **session.in_data.counted(program)}
    recorder.close(**draws, work=done, stand_ins=stand_ins.found, cut=session.cut, placement=placed)
    return {**recorder.counts, "replicas": session.strategy.num_replicas_in_sync}


def _is_reference(case: StrategyCase, assignment: Assignment) -> bool:
    return case.name == "default" or assignment.standing.are_wholes


def _around(
    session: _Session, assignment: Assignment, folder: Path, stand_ins: StandIns, witness: Witness
) -> Callable[[], None]:
    """What is around a script, as its own reference or in the cluster; to be called when it has ended."""
    stack, case = session.stack, session.case
    session.in_data = stack.enter_context(own_draws(case, case.clients.index(task_name()), _started(assignment)))
    stack.enter_context(around_program(assignment))
    if _is_reference(case, assignment):
        told: dict[str, Any] = {"follows": bool(assignment.follows), "replicas": assignment.standing.replicas}
        stack.enter_context(one_replica(stand_ins, **told))
        stack.enter_context(design_differences(stand_ins, yields=bool(assignment.follows)))
        return lambda: None
    if not case.on_device:  # which strategies find by themselves
        stack.enter_context(all_cpus(case.devices))
    if not case.ps:
        return lambda: None
    witness.through(Files(Path(assignment.directory) / "closures"))
    stack.enter_context(serial_closures())
    return stack.enter_context(joins_noted(stand_ins, witness.trains, witness.note))


def _started(assignment: Assignment) -> int:
    """How often this task had been started before. Nobody seeds what it shuffles as the time before."""
    task = current()
    return assignment.incarnation + (0 if task is None else task.spec.incarnation)


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
        follows=bool(assignment.follows),
    )


# `CentralStorageStrategy()` on all logical CPU devices, as it takes all GPUs of a machine that has any.
#
# Without GPUs it takes one CPU, whatever logical devices there are (`device_util.local_devices_from_num_gpus` of
# none); `MirroredStrategy()` takes them all by itself.


@contextlib.contextmanager
def all_cpus(count: int) -> Iterator[None]:
    """Within this context the strategy computes on so many CPU devices where the script names none."""
    from tensorflow.python.distribute import central_storage_strategy

    devices = [f"/cpu:{index}" for index in range(count)]

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, compute_devices: Any = None, parameter_device: Any = None) -> None:
            original(self, compute_devices or devices, parameter_device)

        return init

    with patched(central_storage_strategy.CentralStorageStrategy, "__init__", around):
        yield


# Runs the file of a script as `python FILE ARGS` does, or the cells of a notebook.


_OURS = ("harness", "simulator")


def _execute(script: Script, names: dict[str, Any]) -> None:
    """Run it as `__main__`, in its directory, with its arguments, and with these names besides Python's own.

    Raises:
        RuntimeError: it has ended itself with another exit code than 0.
        Exception: whatever it raises.
    """
    os.chdir(script.cwd)
    sys.argv = [script.path, *script.args]
    sys.path.insert(0, str(Path(script.path).parent))
    try:
        with mock.patch.object(os, "_exit", _leaving(os._exit)):
            _run(script, names)
    except SystemExit as end:
        if end.code not in (None, 0):
            ended = RuntimeError(f"{script.name} ended itself with exit code {end.code!r}")
            raise ended.with_traceback(end.__traceback__) from None


def _run(script: Script, names: dict[str, Any]) -> None:
    if script.cells:
        run_cells(script.path, script.cells, names)
    else:
        runpy.run_path(script.path, names, run_name="__main__")


def _leaving(leave: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
    """`os._exit` for the script's main thread, which ends the script: the process has still to say what was seen.

    Faults, and what must not go on, end it at once.
    """
    process, thread = os.getpid(), threading.current_thread()

    def end(status: int) -> NoReturn:
        caller = str(sys._getframe(1).f_globals.get("__name__"))  # noqa: SLF001 - nothing public tells
        if caller.partition(".")[0] in _OURS or (os.getpid(), threading.current_thread()) != (process, thread):
            leave(status)
        raise SystemExit(status)

    return end
