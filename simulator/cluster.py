"""The context manager that users hold: a cluster of local processes for one topology."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from simulator.errors import RunFailed, UsageError
from simulator.launch import DEFAULT_PRELOAD, forkserver, pack
from simulator.results import RunResult
from simulator.run import Expectation, Options, Run, check_timeout
from simulator.scratch import make_scratch, remove_scratch
from simulator.task import Task
from simulator.topology import Topology

__all__ = ["Cluster"]

_START_ATTEMPTS = 3


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
        out: directory for logs and journals, kept afterwards, one numbered folder a run. Without it everything is
            removed when the context is left.
        stream: copy the tasks' output to stderr as it comes, with `[worker-1]` in front of each line.

    Example:
        >>> with Cluster(Topology(worker=2)) as cluster:
        ...     result = cluster.run(lambda: os.environ["TF_CONFIG"])
        >>> result["worker:1"].value
    """

    def __init__(
        self,
        topology: Topology,
        *,
        timeout: float = 120.0,
        preload: tuple[str, ...] = DEFAULT_PRELOAD,
        env: Mapping[str, str] | None = None,
        out: str | Path | None = None,
        stream: bool = False,
    ) -> None:
        self.topology = topology
        self._options = Options(
            timeout=check_timeout(timeout), preload=tuple(preload), env=dict(env or {}), stream=stream
        )
        self._out = None if out is None else Path(out)
        self._directory: Path | None = None
        self._numbers = itertools.count()
        self._expectations: list[Expectation] = []
        self._run: Run | None = None

    def __enter__(self) -> Cluster:
        self._directory = make_scratch("cluster")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        directory, self._directory = self._directory, None
        if directory is not None:
            remove_scratch(directory)

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
            task: a task, or a pattern such as `worker:*` of which at least one task must fail so.
            error: class name of the exception, or of one of its bases.
            match: part of the exception's message.
            exit: exit code, negative for a signal.
        """
        if "*" not in task:
            self.topology.check_task(task)
        self._expectations.append(Expectation(task, error, match, exit))

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> RunResult:
        """Call `function(*args, **kwargs)` in every client task and return the outcome of every task.

        Clients are all tasks, except that with ps tasks the workers and ps run `tf.distribute.Server` instead. The
        function may be a closure or a lambda; what it returns must be picklable, tensors arrive as NumPy arrays.

        Raises:
            RunFailed: a task failed, hung or vanished; the root cause comes first. Its `result` holds every outcome.
            UsageError: the function cannot be sent to a task.
        """
        for attempt in itertools.count(1):
            with self.start(function, *args, **kwargs) as run:
                try:
                    return run.join()
                except RunFailed:
                    # Another process listens there already: nothing was trained, so the start is repeated on new ports.
                    if attempt == _START_ATTEMPTS or not run.port_conflict():
                        raise
                    self._expectations = list(run.expectations)
        raise AssertionError("unreachable")

    @contextlib.contextmanager
    def start(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[Run]:
        """Like `run`, but yield the started run; leaving the context kills whatever is left of it."""
        if self._directory is None:
            raise UsageError("a Cluster is a context manager; write `with Cluster(...) as cluster:`")
        if not self.topology.clients:
            raise UsageError(
                f"nobody would run the function in a cluster of {self.topology}: with ps tasks, workers and ps are "
                "servers and the chief coordinates; add chief=1 (ParameterServerStrategy waits for a chief for ever)"
            )
        call = pack(function, args, kwargs)
        number = next(self._numbers)
        directory = self._directory / str(number)
        directory.mkdir()
        expectations, self._expectations = tuple(self._expectations), []
        run = Run(self.topology, self._options, directory, call, expectations)
        self._run = run
        try:
            with run:
                yield run
        finally:
            if self._out is not None:
                shutil.copytree(directory, self._out / str(number), dirs_exist_ok=True)

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
        forkserver(self._options.preload).warm_up()
