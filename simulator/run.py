"""One run of one function on one set of fresh processes, from the first port to the last exit."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from simulator import agent
from simulator._events import EventLoop
from simulator._stream import LogStream
from simulator._warden import warden
from simulator.control import Proceed, Release, ToTask, encode
from simulator.errors import DeadlineExceeded, RunFailed, TaskError, UsageError
from simulator.journal import Journal
from simulator.launch import forkserver
from simulator.ports import hold_ports
from simulator.results import RunResult
from simulator.task import Task
from simulator.topology import Topology

__all__ = ["Expectation", "Options", "Run"]

# gRPC waits a second before it tries again when a peer's server is not up yet; tasks of one machine start within
# milliseconds.
_GRPC_OPTIONS = "grpc.initial_reconnect_backoff_ms=50"
_PROXIES = ("grpc_proxy", "no_proxy", "no_grpc_proxy", "http_proxy", "https_proxy")
_CONFLICTS = ("Could not start gRPC server", "Address already in use", "ADDRESS_IN_USE")


@dataclass(frozen=True)
class Options:
    """How a cluster runs its tasks; see `Cluster` for the meaning of each."""

    timeout: float
    preload: tuple[str, ...]
    env: Mapping[str, str]
    stream: bool
    start_timeout: float = 60.0
    peer_grace: float = 2.0
    stop_grace: float = 1.0


@dataclass(frozen=True)
class Expectation:
    """A failure that must happen: which tasks, the exception's class (or a base), part of its message, the exit."""

    task: str
    error: str | None = None
    match: str | None = None
    exit: int | None = None

    def fits(self, failed: Task) -> bool:
        """Whether this task failed in just this way."""
        error = failed.error
        if error is None or (self.error is not None and self.error not in error.bases):
            return False
        if self.match is not None and self.match not in error.message:
            return False
        return self.exit is None or self.exit == failed.exit

    def __str__(self) -> str:
        wanted = [
            f"{name} {value!r}" for name in ("error", "match", "exit") if (value := getattr(self, name)) is not None
        ]
        return f"a failure of {self.task}" + (f" with {', '.join(wanted)}" if wanted else "")


@dataclass
class Run:
    """A started run. Use `join` to wait for its end; leaving its context kills whatever is left."""

    topology: Topology
    options: Options
    directory: Path
    call: bytes
    expectations: Sequence[Expectation] = ()
    tasks: dict[str, Task] = field(default_factory=dict)

    def __enter__(self) -> Run:
        self._stack = contextlib.ExitStack()
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # -- start

    def _start(self) -> None:
        self._began = time.monotonic()
        for name in ("logs", "stacks"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        self.tasks = {name: self._new_task(name) for name in self.topology.tasks}
        ports = self._stack.enter_context(hold_ports(self.topology.networked))
        self.journal = Journal(self.directory / "journal.jsonl")
        self._stack.callback(self.journal.close)
        self.journal.write("start", topology=str(self.topology), tasks=list(self.tasks), ports=ports)
        address = self.directory / "control.sock"
        self._events = EventLoop(self.tasks, address, self.journal)
        self._stack.callback(address.unlink)
        self._stack.callback(self._events.close)
        if self.options.stream:
            logs = [(task.name, task.log_path) for task in self.tasks.values()]
            self._stack.callback(LogStream(logs, sys.stderr).close)
        self._stack.callback(self._end_all)
        server = forkserver(self.options.preload)
        for rank, task in enumerate(self.tasks.values()):
            launched = server.start(agent.main, (self._spec(task, rank, ports, address),), task.name)
            warden.watch_group(launched.pid)
            task.launched = launched
            self._events.watch(task)
        for task in self.tasks.values():
            self._wait_start(task, f"{task.name} to start", lambda task: task.connection is not None or task.ended)
        servers = [task for task in self.tasks.values() if not task.is_client]
        for task in servers:
            self._wait_start(task, f"the server of {task.name} to listen", lambda task: task.ready or task.finished)
        if all(task.ready for task in servers):
            for task in self.clients:
                self._send(task, Proceed(call=self.call))

    def _new_task(self, name: str) -> Task:
        stem = name.replace(":", "-")
        return Task(
            name=name,
            is_client=name in self.topology.clients,
            log_path=self.directory / "logs" / f"{stem}.log",
            stacks_path=self.directory / "stacks" / f"{stem}.txt",
        )

    def _spec(self, task: Task, rank: int, ports: Mapping[str, int], address: Path) -> agent.TaskSpec:
        environ = {name: value for name, value in os.environ.items() if name.lower() not in _PROXIES}
        environ.pop("TF_CONFIG", None)
        if (tf_config := self.topology.tf_config(task.name, ports)) is not None:
            environ["TF_CONFIG"] = tf_config
        environ["TF_GRPC_REUSE_PORT"] = "1"
        given = environ.get("TF_GRPC_DEFAULT_OPTIONS")
        environ["TF_GRPC_DEFAULT_OPTIONS"] = f"{_GRPC_OPTIONS},{given}" if given else _GRPC_OPTIONS
        environ["LOCKSTEP_TASK"] = task.name
        environ.update(self.options.env)
        return agent.TaskSpec(
            task=task.name,
            incarnation=task.incarnation,
            control=str(address),
            log=str(task.log_path),
            stacks=str(task.stacks_path),
            environ=environ,
            devices=str(self.topology.devices_of(task.job)),
            rank=rank,
            threads=max(1, _cores() // len(self.tasks)),
            tensorflow="tensorflow" in self.options.preload,
            server=not task.is_client,
        )

    # -- waiting

    @property
    def clients(self) -> list[Task]:
        """The tasks that run the function."""
        return [task for task in self.tasks.values() if task.is_client]

    def wait_step(self, task: str, number: int, timeout: float | None = None) -> None:
        """Wait until `task` has announced training step `number`, or can no longer do so.

        Raises:
            DeadlineExceeded: neither happened within `timeout` seconds (the run's own timeout if not given).
        """
        watched = self.tasks[self.topology.check_task(task)]
        seconds = self.options.timeout if timeout is None else timeout
        self._wait(lambda: watched.steps >= number or watched.finished, f"{task} to reach step {number}", seconds)

    def join(self) -> RunResult:
        """Wait for the end of the run, stop what is left, and return every task's outcome.

        Raises:
            RunFailed: a task failed, hung or vanished and that was not expected, or an expected failure never came.
        """
        stacks: dict[str, str] = {}
        try:
            self._wait(
                lambda: self._failed() or all(task.finished for task in self.clients),
                "all clients to finish",
                self.options.timeout,
            )
            if self._failed():
                # Peers of a failed task usually fail a moment later; their own words help to understand it.
                with contextlib.suppress(DeadlineExceeded):
                    self._wait(lambda: all(task.finished for task in self.clients), "peers", self.options.peer_grace)
        except DeadlineExceeded as late:
            stacks = self._stacks()
            self._blame_hang(late)
        self._release()
        self._end_all()
        result = RunResult(
            tasks={name: task.outcome() for name, task in self.tasks.items()},
            seconds=time.monotonic() - self._began,
            directory=self.directory,
        )
        if causes := self._causes():
            raise RunFailed(causes, result, stacks=stacks)
        return result

    def port_conflict(self) -> bool:
        """Whether a task failed because somebody else listens on its port."""
        return any(
            task.error is not None and any(text in f"{task.error.message}{task.error.traceback}" for text in _CONFLICTS)
            for task in self.tasks.values()
        )

    def _wait_start(self, task: Task, what: str, done: Callable[[Task], bool]) -> None:
        self._wait(lambda: done(task), what, self.options.start_timeout)

    def _wait(self, done: Callable[[], bool], what: str, seconds: float) -> None:
        with self._events.changed:
            if not self._events.changed.wait_for(done, timeout=seconds):
                raise DeadlineExceeded(what, seconds)

    def _failed(self) -> bool:
        return any(task.error is not None for task in self.tasks.values())

    # -- judging

    def _blame_hang(self, late: DeadlineExceeded) -> None:
        now = time.monotonic()
        with self._events.changed:
            for task in self.clients:
                if not task.finished:
                    said = f"last announced step {task.steps}" if task.steps else "no step was announced"
                    task.error = TaskError(
                        task.name, "Hang", f"did not finish within {late.seconds:g} s ({said})", at=now
                    )
                    self.journal.write("hang", task=task.name)

    def _causes(self) -> tuple[TaskError, ...]:
        causes = []
        met: set[Expectation] = set()
        for task in self.tasks.values():
            fitting = [
                wish for wish in self.expectations if fnmatch.fnmatchcase(task.name, wish.task) and wish.fits(task)
            ]
            met.update(fitting)
            if task.error is not None and not fitting:
                causes.append(task.error)
        for wish in self.expectations:
            if wish not in met:
                causes.append(
                    TaskError(
                        wish.task,
                        "ExpectedFailureMissing",
                        f"{wish} was expected and did not come",
                        at=time.monotonic(),
                    )
                )
        return tuple(causes)

    # -- the end

    def _send(self, task: Task, message: ToTask) -> None:
        connection: socket.socket | None = task.connection
        if connection is not None:
            with contextlib.suppress(OSError):  # it has just ended, which the event loop reports
                connection.sendall(encode(message))

    def _release(self) -> None:
        for task in self.tasks.values():
            if task.result is not None or (task.ready and not task.is_client):
                # A server's exit is asked for; a client that returned must still end with exit code 0.
                task.stopped = not task.is_client
                self._send(task, Release())
        with contextlib.suppress(DeadlineExceeded):
            self._wait(
                lambda: all(
                    task.ended
                    for task in self.tasks.values()
                    if task.leaving or task.stopped or task.result is not None
                ),
                "tasks to exit by themselves",
                self.options.stop_grace * 5,
            )

    def _end_all(self) -> None:
        """TERM, then KILL, every process group that is left; return when all of it is gone."""
        living = [task for task in self.tasks.values() if task.alive]
        for task in living:
            task.stopped = True
            task.signal_group(signal.SIGTERM)
            task.signal_group(signal.SIGCONT)  # a stopped process cannot act on TERM
        with contextlib.suppress(DeadlineExceeded):
            self._wait(
                lambda: not any(task.alive for task in living), "tasks to end after SIGTERM", self.options.stop_grace
            )
        for task in self.tasks.values():
            # Also after a clean exit: what the task started and left behind is in its group.
            if task.signal_group(signal.SIGKILL) and task.ended:
                self.journal.write("leaked", task=task.name)
        self._wait(lambda: not any(task.alive for task in self.tasks.values()), "tasks to end after SIGKILL", 30.0)

    def _stacks(self) -> dict[str, str]:
        """Python stacks of every thread of every living task."""
        living = [task for task in self.tasks.values() if task.alive]
        for task in living:
            task.send_signal(signal.SIGUSR2)

        def complete(task: Task) -> bool:
            # faulthandler ends with the main thread's stack, whose outermost frame is the forkserver's.
            text = task.stacks_path.read_text(errors="replace") if task.stacks_path.exists() else ""
            return text.endswith("in <module>\n") or not task.alive

        deadline = time.monotonic() + 2.0
        with self._events.changed:
            while time.monotonic() < deadline and not all(complete(task) for task in living):
                self._events.changed.wait(0.02)
        unknown = "(no answer: the process is stopped, or deaf to signals)"
        return {
            task.name: (task.stacks_path.read_text(errors="replace") or unknown)
            if task.stacks_path.exists()
            else unknown
            for task in living
        }


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_timeout(timeout: float) -> float:
    """Return `timeout` if it is a positive number of seconds.

    Raises:
        UsageError: it is not.
    """
    if not timeout > 0:
        raise UsageError(f"timeout={timeout!r} is not a positive number of seconds")
    return timeout
