"""What a client task of a verified run executes: seeds, strategy, recorder, program."""

from __future__ import annotations

import contextlib
import os
import platform
import random
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.evidence.independence import notes_of
from harness.evidence.links import BUILT
from harness.evidence.restart_files import note_found, traces_of
from harness.evidence.steps import FOR_ALL, RunEvidence, Segment, Standing, evidence_folder
from harness.evidence.trace import Header
from harness.recording.clock import moved_clock
from harness.recording.closure_files import Files
from harness.recording.closures import Closures, listening
from harness.recording.default_seeds import mend_seeds, own_draws, seeded_generators
from harness.recording.fixed_draws import fixed_draws
from harness.recording.input_pipelines import datasets_outlive, without_autotune, without_shard_hints
from harness.recording.keras_build import optimizers_built_before
from harness.recording.replica_lines import lines_that_count
from harness.recording.serial_closures import serial_closures
from harness.recording.steps.mean_replicas import averaging, counted_as_one
from harness.recording.tf32 import rounding_products
from harness.recording.tpu_rehearsal import tpu_rehearsal
from harness.recording.watch import ByHand, Watch, WatchOrder
from harness.recording.watch.places import Places
from harness.recording.work import working
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase
from simulator.agent import current, now
from simulator.agent.private_files import view_of_machine

if TYPE_CHECKING:
    from harness.recording.noise import Noise
    from harness.recording.witness import Witness


OWN = "record"
"""The `record.directory` of machines that share none: a folder of each one's temporary files."""


class FileView(msgspec.Struct, frozen=True):
    """A view of the file system that a client enters: which process holds it, and what is private in it.

    `written` has, by the folder where it is kept, the directory below which something is written in the view.
    """

    holder: int
    covered: tuple[str, ...]
    written: dict[str, str] = {}

    def files(self) -> dict[str, float]:
        """What has been written in it and holds something: by its path when that was, in seconds since the epoch."""
        found = {}
        for folder, directory in self.written.items():
            for file in sorted(Path(folder).rglob("*")):
                if file.is_file() and file.stat().st_size and "__pycache__" not in file.parts:
                    found[str(Path(directory, file.relative_to(folder)))] = file.stat().st_mtime
        return found


_PATIENCE_SECONDS = 10.0
_BETWEEN_CLIENTS = 1_731
"""Between the seeds of Python and NumPy in one client and those in the next one.

By `--seed 20`, the default, the first three coins of two clients fall otherwise, of both: that they fall alike hides
that each client throws its own.
"""

THERE = FileView(0, ())
"""One that is held on the machine of the task, which another machine knows nothing of."""


class Assignment(msgspec.Struct, frozen=True):
    """What one client has to run, and where its trace goes.

    Paths that are not absolute are those of a task on another machine: of what comes back from there, and of the
    temporary files of the run. `noise` is the seed of a perturbed reference; `incarnation` is 1 in the processes that
    resume an interrupted run. `threads` bounds TensorFlow's thread pools, None for as many as the task has been given.
    `ahead` is by how many seconds the clock that the program sees is, and `rate` how fast it goes. `forced` is the
    trace of a run whose variables are set after each step. `watching` says which step is to be watched, operation
    by operation; the program ends with it. `witness` is whether the harness looks for itself at what the program
    does. `view` is the view of the file system in which a script is run. `tf32` is whether the factors of products
    are rounded as for TF32. `beside` is how many more files as large as the trace its disk is to have room for.
    `keeps` is whether the evidence of each step is kept beside the trace, and `follows` is the evidence of a run,
    whose replicas those here stand for as `standing` says.
    `apart` is whether it draws otherwise than by this seed, also where the program seeds TensorFlow.
    """

    traces: str
    directory: str
    seed: int
    noise: int | None = None
    incarnation: int = 0
    threads: int | None = None
    ahead: float = 0.0
    watching: WatchOrder | None = None
    witness: bool = True
    view: FileView | None = None
    tf32: bool = False
    beside: int = 0
    keeps: bool = False
    follows: tuple[Segment, ...] = ()
    standing: Standing = FOR_ALL
    apart: bool = False
    rate: float = 1.0


def run_client(program: Program, case: StrategyCase, assignment: Assignment) -> dict[str, Any]:
    """Run the program under the strategy and leave a trace file.

    Returns:
        As of `Recorder.counts`, and `replicas`, as TensorFlow counts them.

    Raises:
        RuntimeError: the strategy that TensorFlow built is not the one that was asked for.
    """
    from harness.recording.file_access import note_files
    from harness.recording.placement import placement_of
    from harness.recording.recorder import Recorder

    strategy = prepared(case, assignment := as_here(assignment))
    noise, watch = _companions(case, assignment, strategy)
    trace = folder_of(assignment) / f"{task_name().replace(':', '-')}.trace"
    header = _header(strategy, case, assignment)
    recorder = Recorder(
        strategy,
        header,
        trace=trace,
        directory=Path(assignment.directory),
        beside=assignment.beside,
        follows=bool(assignment.follows),
        noise=noise,
        watch=watch,
        witness=_witness(strategy, case, assignment, header, trace, noise, watch) if assignment.witness else None,
    )
    note_modules = note_files(notes_of(trace), own_folders(assignment, trace), until_over(assignment))
    with contextlib.ExitStack() as stack:
        stack.enter_context(moved_clock(assignment.ahead, assignment.rate))
        train = program.load()
        client = case.clients.index(task_name())
        closures = recorder.closures = stack.enter_context(_closures(program, turns=case.ps > 0 and assignment.keeps))
        drawn = stack.enter_context(seeded_generators(assignment.seed, client, apart=assignment.apart))
        work = stack.enter_context(working(strategy))
        if noise is not None:
            stack.enter_context(noise.active())
        stack.enter_context(fixed_draws(program.fixed_draws))
        in_data = stack.enter_context(own_draws(case, client, assignment.incarnation))
        stack.enter_context(around_program(assignment))
        if assignment.standing.are_wholes:
            stack.enter_context(counted_as_one())
        if watch is not None:
            stack.enter_context(watch.active())
        stack.enter_context(_as_a_device_computes(strategy, case, assignment))
        counted = stack.enter_context(lines_that_count())
        # Last, so that it sees what the program gets.
        stack.enter_context(recorder.witnessing())
        _until_exit(train, strategy, recorder)
    note_modules()
    recorded = recorder.recorded_variables()
    placed = placement_of(strategy, recorded, task_name()) if case.on_device else None
    done = work.counted(recorded)
    draws = {"unseeded": drawn.times, **in_data.counted(program)}
    told: dict[str, Any] = {"scheduled": closures.count, "retried": closures.retried, "counted": tuple(counted)}
    recorder.close(**told, **draws, work=done, placement=placed)
    return {**recorder.counts, "replicas": strategy.num_replicas_in_sync}


def _until_exit(train: Callable[..., Any], strategy: Any, recorder: Any) -> None:
    """Run a function to its end, or until it ends its process as one that has done its work."""
    try:
        train(strategy, recorder)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise


def own_folders(assignment: Assignment, trace: Path) -> list[Path]:
    """Folders of this run, and of the evidence that it follows: nothing in there is the program's to read or write."""
    followed = [folder for each in assignment.follows for folder in each.folders]
    private = () if assignment.view is None else assignment.view.covered
    return [trace.parent, *map(Path, (assignment.traces, assignment.directory, *followed, *private))]


def until_over(assignment: Assignment) -> Callable[[], None]:
    """Comes back when the run has ended that this process follows: until then nothing may be changed beside it.

    The run may need what this process has locked. So it ends if that takes long, and is made again afterwards.
    """
    live = next((each.live for each in assignment.follows if each.live is not None), None)

    def until() -> None:
        assert live is not None
        try:
            msgspec.structs.replace(live, seconds=_PATIENCE_SECONDS).wait(lambda: False, "the end")
        except TimeoutError:
            os._exit(1)

    return (lambda: None) if live is None else until


@contextlib.contextmanager
def around_program(assignment: Assignment) -> Iterator[None]:
    """What is around a program, as a function or as a script; some of it only where that follows a run."""
    with (
        without_autotune() if assignment.follows else contextlib.nullcontext(),
        without_shard_hints() if assignment.follows else contextlib.nullcontext(),
        averaging() if assignment.standing.are_wholes else contextlib.nullcontext(),
        datasets_outlive(),
        optimizers_built_before(),
    ):
        yield


@contextlib.contextmanager
def _closures(program: Program, *, turns: bool) -> Iterator[Closures]:
    """What the program asks of coordinators; with turns one closure is run at a time, so that each can be a step."""
    places = Places()
    closures = Closures(lambda: places.line() or program.name)
    with listening(closures), serial_closures() if turns else contextlib.nullcontext():
        yield closures


def _witness(
    strategy: Any,
    case: StrategyCase,
    assignment: Assignment,
    header: Header,
    trace: Path,
    noise: Noise | None,
    watch: Watch | ByHand | None,
) -> Witness:
    from harness.recording.witness import Witness, all_seams

    told = of_steps(case, assignment, trace, header)
    witness = Witness(strategy, header.local_replicas, all_seams(), noise, watch, **told)
    if case.ps and assignment.keeps:  # its closures are run in other processes
        witness.through(Files(Path(tempfile.mkdtemp())), only_closures=True)
    return witness


def of_steps(case: StrategyCase, assignment: Assignment, trace: Path, header: Header) -> dict[str, Any]:
    """What a witness is told of the evidence of steps."""
    return {
        "keeps": evidence_folder(trace) if assignment.keeps else None,
        "follows": RunEvidence(assignment.follows) if assignment.follows else None,
        "standing": assignment.standing,
        "alone": len(case.clients) == 1,
        "first_replica": case.clients.index(task_name()) * header.local_replicas,
    }


def as_here(assignment: Assignment) -> Assignment:
    """The assignment with the paths, and the view of the files, of this machine."""
    task = current()
    if task is None or Path(assignment.traces).is_absolute():
        return assignment
    traces = Path(task.spec.left, assignment.traces)
    directory = Path(tempfile.gettempdir(), assignment.directory)
    for folder in (traces, directory):
        folder.mkdir(parents=True, exist_ok=True)
    view = FileView(*view_of_machine()) if assignment.view == THERE else assignment.view
    return msgspec.structs.replace(assignment, traces=str(traces), directory=str(directory), view=view)


def _as_a_device_computes(
    strategy: Any, case: StrategyCase, assignment: Assignment
) -> contextlib.AbstractContextManager[object]:
    """What is done on a CPU as devices do it, where that was asked for."""
    if assignment.tf32:
        return rounding_products()
    return tpu_rehearsal(strategy) if case.rehearsed else contextlib.nullcontext()


def prepared(case: StrategyCase, assignment: Assignment) -> Any:
    """The strategy, in a process with its seeds and threads; built by all tasks at once.

    Raises:
        RuntimeError: the strategy that TensorFlow built is not the one that was asked for.
    """
    bound_threads(assignment.threads)
    seed_everything(assignment.seed, case.clients.index(task_name()))
    strategy = case.build()
    check_shape(strategy, case)
    if (task := current()) is not None:
        if told := case.family.computes_on(strategy, case):
            task.computes_on(told)
        task.gate(BUILT)
    return strategy


def _companions(
    case: StrategyCase, assignment: Assignment, strategy: Any
) -> tuple[Noise | None, Watch | ByHand | None]:
    """What goes along with the program where that was asked for."""
    from harness.recording.noise import Noise

    noise = None if assignment.noise is None else Noise(assignment.noise)
    if assignment.watching is None:
        return noise, None
    if case.family.on_mesh:
        return noise, ByHand(assignment.watching, task_name())
    files = Files(Path(tempfile.mkdtemp())) if case.ps else None
    return noise, Watch(assignment.watching, task_name(), strategy.num_replicas_in_sync, files)


def folder_of(assignment: Assignment) -> Path:
    """Where this process leaves its trace: a task that a restart has started again does not add to the one before."""
    task = current()
    restarted = 0 if task is None else task.spec.incarnation
    folder = traces_of(Path(assignment.traces), restarted)
    if restarted:
        folder.mkdir(parents=True, exist_ok=True)
        note_found(folder, task_name(), Path(assignment.directory), now())
    return folder


def task_name() -> str:
    """The task of this process."""
    task = current()
    return "local:0" if task is None else task.spec.task


def _header(strategy: Any, case: StrategyCase, assignment: Assignment) -> Header:
    return Header(
        task=task_name(),
        incarnation=assignment.incarnation,
        strategy=case.name,
        replicas=strategy.num_replicas_in_sync,
        local_replicas=case.family.local_replicas(strategy, case),
        clients=len(case.clients),
        seed=assignment.seed,
        versions=versions(),
        devices=own_devices(),
        onednn=uses_onednn(),
        follows=bool(assignment.follows),
    )


def own_devices() -> tuple[str, ...]:
    """What this process computes on, as the simulator has prepared it."""
    task = current()
    return () if task is None else task.devices


def uses_onednn() -> bool:
    """Whether TensorFlow computes on the CPU by oneDNN, which by default depends on what the CPU can do."""
    from tensorflow.python.util import _pywrap_util_port

    return bool(_pywrap_util_port.IsMklEnabled())


def versions() -> dict[str, str]:
    """Those of Python and of the packages that numbers depend on, as far as they are installed."""
    found = {"python": platform.python_version()}
    for package in ("tensorflow", "keras", "tf_keras", "numpy"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def bound_threads(threads: int | None) -> None:
    """Bound TensorFlow's thread pools, None for as many threads as the task has been given."""
    import tensorflow as tf

    if threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)


def seed_everything(seed: int, client: int = 0) -> None:
    """Give TensorFlow the same seed in every process, and Python, NumPy and both Kerases those of a client.

    Nobody seeds the workers of a cluster alike: files that each of them shuffles by `random` are in another order each.
    What TensorFlow draws without a seed is moved where it is drawn, by `own_shuffles`.

    Args:
        seed: of the run.
        client: number of this client, from 0, which draws as the reference does.
    """
    import sys

    import numpy as np
    import tensorflow as tf

    own = (seed + _BETWEEN_CLIENTS * client) % 2**32
    random.seed(own)
    np.random.seed(own)
    for name in ("keras", "tf_keras"):
        if name in sys.modules:
            sys.modules[name].utils.set_random_seed(own)
    if "tf_keras" in sys.modules:
        mend_seeds(sys.modules["tf_keras"], own)
    tf.random.set_seed(seed)  # last, since the Kerases set it too


def check_shape(strategy: Any, case: StrategyCase) -> None:
    """A multi-worker run must run as one: TensorFlow itself is asked how many replicas and workers it sees.

    Raises:
        RuntimeError: others than the case has.
    """
    replicas = case.family.replicas_seen(strategy, case)
    if replicas != case.replicas:
        raise RuntimeError(f"{case.name} should have {case.replicas} replicas in sync, TensorFlow sees {replicas}")
    check_devices(case)
    workers = case.family.workers_seen(strategy, case)
    if workers != case.workers:
        raise RuntimeError(f"{case.name} should have {case.workers} workers, TensorFlow sees {workers}")


def check_devices(case: StrategyCase) -> None:
    """Every task that TensorFlow connects this client to has the devices of the case, and no GPU besides.

    Raises:
        RuntimeError: a worker has others. A strategy would take those for replicas, or leave them out.
    """
    import tensorflow as tf

    found: dict[str, int] = {}
    for device in tf.config.list_logical_devices():
        spec = tf.DeviceSpec.from_string(device.name)
        task = task_name() if spec.job in (None, "localhost") else f"{spec.job}:{spec.task or 0}"
        found[task] = found.get(task, 0) + (spec.device_type == "GPU")
    for task, gpus in found.items():
        if gpus != (wanted := case.gpus_of(task)):
            raise RuntimeError(f"{task} should have {wanted} logical GPUs under {case.name}, TensorFlow sees {gpus}")
