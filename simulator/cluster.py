"""The context manager that users hold: a cluster of processes for one topology."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from _lockstep.preloads import all_asked_for
from simulator.arguments import check_environment, check_kind
from simulator.errors import UsageError
from simulator.faults import FaultPlan, Injector
from simulator.faults.machine_limits import check_alone, check_over_machines
from simulator.hardware.detecting import task_variables
from simulator.launch import DEFAULT_PRELOAD, at_import, environ_of, forkserver, pack
from simulator.launch.functions import Functions
from simulator.launch.programs import Programs, working_directory
from simulator.launch.protocol import Launcher
from simulator.machines.engines.machine_pool import reached
from simulator.machines.engines.selection import engine_of
from simulator.machines.local.scratch import make_scratch, remove_scratch
from simulator.machines.placement import placed
from simulator.machines.protocol import Machine
from simulator.network import LOOPBACK, NAMESPACES, Link, NetworkOptions, default_network
from simulator.out import NotKept, OutDirectory
from simulator.results import RunFailed, RunResult
from simulator.run.expectations import Expectation
from simulator.run.options import Options, check_timeout
from simulator.run.plan import RunPlan
from simulator.run.protocol import NoCompanion
from simulator.run.restarts import RestartPolicy
from simulator.run.run import KEPT_FILES, KEPT_FOLDERS, Run, running
from simulator.run.task import Task
from simulator.topology import Topology, check_range, matching

_START_ATTEMPTS = 3
T = TypeVar("T")


def _check_kinds(topology: object, faults: object, restarts: object, out: object, env: object) -> None:
    check_kind("topology", topology, Topology, "Topology(worker=2)")
    check_kind("faults", faults, (FaultPlan, type(None)), "FaultPlan(faults=[...])")
    check_kind("restarts", restarts, int, "2")
    check_kind("out", out, (str, os.PathLike, type(None)), "'runs'")
    check_environment(env or {})


class Cluster:
    """Runs functions on a cluster of fresh local processes.

    Every run starts new processes and takes new ports, because a TensorFlow process is spoilt by a failed collective
    and cannot host two cluster shapes. From the preloaded forkserver that costs some 50 ms a task.

    Args:
        topology: the tasks and their devices.
        timeout: seconds after which a run that has not finished counts as hung; its tasks' stacks are then reported.
        preload: modules that the forkserver imports once. Without `tensorflow` among them tasks start in milliseconds
            and TensorFlow is not set up (no logical devices, no thread bounds).
        env: environment variables for every task, on top of the caller's.
        out: directory for logs and journals, kept afterwards, one numbered folder a run. One that holds something else
            than earlier runs is refused. Without it everything is removed when the context is left.
        stream: copy the tasks' output to stderr as it comes, with `[worker-1]` in front of each line.
        tf_log: with False `stream` leaves out what TensorFlow writes at its start; logs have it.
        restarts: how many failures `run` answers with a restart before one fails the run; see `RestartPolicy`.
        restart_policy: `task` (the default with ps tasks), `job` (the default without) or `none`.
        faults: what shall go wrong in every run; its links are in force from the start. A fault that does not happen
            fails the run, a task that it ends does not; see docs/faults.md.
        links: conditions on the links between tasks, see `Link`. They make every connection between tasks go through a
            relay, which counts bytes; conditions can then be changed while a run goes on, with `Run.network`.
        relay: use the relay although there are no links yet.
        network: `loopback`: all tasks share this machine's loopback interface. `namespaces`: each task has a host of
            its own, with a name, an address and a loopback interface that nobody else reaches; see docs/network.md. By
            default what the environment variable `LOCKSTEP_NETWORK` says, else `loopback`.
        seed: of everything random about the network.
        machines: where tasks run, by default here: `COMMAND {}:NAME,NAME`, a command that starts a process on the
            machine whose name stands for `{}`, and joins its standard streams; or `ray:COUNT` or `ray:NODE,NODE`, nodes
            of a Ray cluster; see docs/machines.md. What one machine alone can do is refused then.
        place: task to machine; the others go to the machines in blocks.
        files: with machines: `shared`, the working directory is the same on all of them, or `ship`, its files are sent.
        python: with machines: the interpreter there, by default the path of this one.
        cable: with machines: a command of this machine that pulls the cable of the one whose name stands for `{}`.
        private: with machines: directories below which, and below those of the top floor but the system's and `/tmp`,
            what functions write is seen on their machine alone and gone afterwards, once a task has entered the view
            that its machine holds for that (`simulator.agent.private_files`).

    Example:
        >>> with Cluster(Topology(worker=2)) as cluster:
        ...     result = cluster.run(lambda: os.environ["TF_CONFIG"])
        >>> result["worker:1"].value
    """

    _directory: Path | None = None
    _run: Run | None = None
    _machines: Sequence[Machine] = ()

    def __init__(
        self,
        topology: Topology,
        *,
        timeout: float = 120.0,
        preload: tuple[str, ...] = DEFAULT_PRELOAD,
        env: Mapping[str, str] | None = None,
        out: str | Path | None = None,
        stream: bool = False,
        tf_log: bool = True,
        restarts: int = 0,
        restart_policy: str | None = None,
        faults: FaultPlan | None = None,
        links: Iterable[Link] = (),
        relay: bool = False,
        network: str | None = None,
        seed: int = 0,
        machines: str | None = None,
        place: Mapping[str, str] | None = None,
        files: str | None = None,
        python: str | None = None,
        cable: str | None = None,
        private: Sequence[str] | None = None,
    ) -> None:
        _check_kinds(topology, faults, restarts, out, env)
        self.topology = topology
        working_directory()
        FaultPlan(seed=seed)  # which checks it
        plan = FaultPlan() if faults is None else faults.expand(topology)
        plan.check_timeout(check_timeout(timeout))
        self._engine = engine_of(machines, place=place, files=files, python=python, cable=cable)
        self._private = None if private is None or self._engine is None else tuple(private)
        self._place = {} if self._engine is None else placed(topology.tasks, self._engine.names, place or {})
        kind = network or (default_network(topology) if self._engine is None else LOOPBACK)
        self._options = Options(
            timeout=check_timeout(timeout),
            preload=tuple(preload),
            env=dict(env or {}),
            stream=stream,
            tf_log=tf_log,
            restarts=RestartPolicy.of(restarts, restart_policy, topology),
            network=NetworkOptions.of(
                kind,
                (*links, *plan.links),
                relay=relay or plan.needs_relay(hosts=kind == NAMESPACES),
                topology=topology,
            ),
            seed=seed or plan.seed,
        )
        if self._engine is None:
            check_alone(plan)
        else:
            check_over_machines(topology, plan, self._options.network, cable=self._engine.cable is not None)
        self._plan = plan
        self._out = None if out is None else OutDirectory(out)
        if self._out is not None:
            self._out.check()
        self._numbers = itertools.count()
        self._expectations: list[Expectation] = []
        self._gates: dict[str, list[str]] = {}

    @property
    def place(self) -> Mapping[str, str]:
        """The name of the machine of each task; empty where all are here."""
        return dict(self._place)

    def sees(self, directory: Path) -> bool:
        """Whether a directory is the same one for all tasks as for this process, which is tried on every machine.

        Raises:
            OSError: nothing can be written into it.
        """
        return all(machine.sees(directory) for machine in self._machines)

    @property
    def network(self) -> NetworkOptions:
        """What joins the tasks."""
        return self._options.network

    def __enter__(self) -> Cluster:
        with contextlib.ExitStack() as stack:
            if self._out is not None:
                self._out.make()
                stack.enter_context(self._out.held())
            self._directory = make_scratch("cluster")
            stack.callback(remove_scratch, self._directory)
            # Not at each run: reaching a machine takes longer than starting tasks there.
            self._machines = () if self._engine is None else stack.enter_context(reached(self._engine))
            self._leave = stack.pop_all().close
        return self

    def __exit__(self, *raised: object) -> None:
        self._directory = None
        self._leave()

    def expect(
        self,
        task: str,
        *,
        error: str | None = None,
        match: str | None = None,
        exit: int | None = None,  # noqa: A002 - it reads as the field of the outcome does
    ) -> None:
        """Demand that the next run fails in this way; it is an error if it does not.

        Args:
            task: a task, or a pattern such as `worker:*` or `worker:0-31` of which at least one task must fail so.
            error: class name of the exception, or of one of its bases.
            match: part of the exception's message.
            exit: exit code, negative for a signal.
        """
        if found := matching(task, self.topology.tasks):
            check_range(task, found, "task")
        elif "*" not in task:
            self.topology.check_task(task)
        self._expectations.append(Expectation(task, error, match, exit))

    def set_gate(self, task: str, gate: str) -> None:
        """Have the next run stop `task` at this point of its program, until `Run.open_gate`.

        Args:
            task: a task that runs the function.
            gate: `step:N` is right after the task has announced step N, before it does anything else.
        """
        self._gates.setdefault(self.topology.check_task(task), []).append(gate)

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> RunResult:
        """Call `function(*args, **kwargs)` in every client task and return the outcome of every task.

        Clients are all tasks, except that with ps tasks the workers and ps run `tf.distribute.Server` instead. The
        function may be a closure or a lambda; what it returns must be picklable, tensors arrive as NumPy arrays.

        Raises:
            RunFailed: a task failed, hung or vanished; the root cause comes first. Its `result` holds every outcome.
            UsageError: the function cannot be sent to a task.
        """
        return self.attempt(Run.join, lambda: self.start(function, *args, **kwargs))

    def attempt(self, use: Callable[[Run], T], start: Callable[[], contextlib.AbstractContextManager[Run]]) -> T:
        """What `use` makes of a started run; once more on new ports, if it failed since somebody else had taken one.

        Ports are held: only a program that shares them can take one, before anything was trained.

        Args:
            use: gets the started run.
            start: starts it, as `lambda: cluster.start(function)` does. What `expect` and `set_gate` have asked of the
                next run is asked of each attempt.

        Raises:
            RunFailed: as `use` does, the third time whatever was the reason.
        """
        asked = self._expectations, self._gates
        for attempt in itertools.count(1):
            with start() as run:
                try:
                    return use(run)
                except RunFailed:
                    if attempt == _START_ATTEMPTS or not run.port_conflict():
                        raise
            self._expectations, self._gates = asked
        raise AssertionError("unreachable")

    @contextlib.contextmanager
    def start(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[Run]:
        """Like `run`, but yield the started run; leaving the context kills whatever is left of it.

        An argument with an attribute `environ` says what the environment of the tasks has to have, but for what the
        cluster itself gives them or was told.
        """
        if not self.topology.clients:
            raise UsageError(
                f"nobody would run the function in a cluster of {self.topology}: with ps tasks, workers and ps are "
                "servers and the chief coordinates; add chief=1 (ParameterServerStrategy waits for a chief for ever)"
            )
        if not callable(function):
            raise UsageError(f"{function!r} is no function; a program is run by run_command(['python', 'train.py'])")
        call = pack(function, args, kwargs)
        environ, asked = environ_of(args), all_asked_for()
        with self.start_with(Functions(call, self._options.preload, self._private, environ, asked)) as run:
            yield run

    def run_command(self, argv: Sequence[str], *, cwd: str | Path | None = None, steps: str = "auto") -> RunResult:
        """Run a program in every task, unmodified, and return the outcome of every task.

        Each task is a process of its own with its own `TF_CONFIG`. The job ends well when every client has ended with
        exit code 0: with ps tasks the chief (the program starts `tf.distribute.Server` in the others), else all but the
        evaluator. The other tasks are then stopped.

        Args:
            argv: program and arguments; no shell is involved.
            cwd: where it runs, by default here.
            steps: how training steps are counted: `fit`, `gradient` (gradients that are taken), `function` (outermost
                calls of tf.functions), `explicit` (`simulator.step()`), or `auto` for the most telling of those that
                happen.

        Raises:
            RunFailed: a task ended with another exit code or hung; the root cause comes first.
            UsageError: the program cannot be found.
        """
        return self.attempt(Run.join, lambda: self.start_command(argv, cwd=cwd, steps=steps))

    @contextlib.contextmanager
    def start_command(
        self, argv: Sequence[str], *, cwd: str | Path | None = None, steps: str = "auto"
    ) -> Iterator[Run]:
        """Like `run_command`, but yield the started run; leaving the context kills whatever is left of it."""
        with self.start_with(Programs.of(argv, cwd, steps)) as run:
            yield run

    @contextlib.contextmanager
    def start_with(self, launcher: Launcher) -> Iterator[Run]:
        """Start what a launcher starts, and yield the run; leaving the context kills whatever is left of it."""
        if self._directory is None:
            raise UsageError("a Cluster is a context manager; write `with Cluster(...) as cluster:`")
        number = next(self._numbers)
        directory = self._directory / str(number)
        if self._out is not None:
            # What an earlier run has left there would be taken for this one's.
            self._out.renew(directory.name)
            _keep_in(self._out.path / directory.name, directory)
        expectations, self._expectations = tuple(self._expectations), []
        gates, self._gates = self._gates, {}
        injector = Injector(self._plan) if self._plan.faults or self._plan.points else NoCompanion()
        plan = RunPlan(
            self.topology,
            self._options,
            directory,
            launcher,
            expectations,
            gates,
            injector,
            self._machines,
            self._place,
        )
        with running(plan) as run:
            self._run = run
            yield run

    def task(self, name: str) -> Task:
        """The handle of one task of the latest run, for example `worker:1`.

        Raises:
            UsageError: there is no such task, or nothing has been run yet.
        """
        self.topology.check_task(name)
        if self._run is None:
            raise UsageError("tasks exist from the first run on")
        return self._run.tasks[name]

    def warm_up(self) -> None:
        """Start the forkserver and wait for its imports, so that they are not part of the first run."""
        hardware = {} if (kind := self.topology.gpu_kind) is None else task_variables(kind)
        forkserver(self._options.preload, at_import({**hardware, **self._options.env})).warm_up()


def _keep_in(kept: Path, directory: Path) -> None:
    """Have the run in `directory` write what is worth keeping into `kept`, where it is whatever ends this process.

    The run itself stays in a temporary directory: the name of its socket has to be short, and its tasks say where they
    write in messages, which not every path could be in.
    """
    try:
        directory.mkdir()
        for name in KEPT_FOLDERS:
            (kept / name).mkdir(parents=True)
        for name in (*KEPT_FOLDERS, *KEPT_FILES):
            (directory / name).symlink_to(kept / name)
    except OSError as error:
        raise NotKept(kept, error) from error
