"""The parent's handle on one task: who it is, what it has said, how it ended."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from simulator.errors import TaskError
from simulator.machines.protocol import CATCHING, GROUP, LOCAL, PROCESS, Machine
from simulator.results import Incarnation, Saved, TaskResult
from simulator.run.saves import OpenSave
from simulator.wire.control import ToTask, encode
from simulator.wire.events import Who


def signal_name(exit_code: int | None) -> str | None:
    """`SIGKILL` for -9; `None` for an exit that no signal caused."""
    if exit_code is None or exit_code >= 0:
        return None
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


class Hears(Protocol):
    """What takes messages to a task's agent, such as a socket."""

    def sendall(self, data: bytes, /) -> None:
        """Send this."""


@dataclass(frozen=True)
class ProcessWire:
    """Takes messages to one process of a machine."""

    machine: Machine
    who: Who

    def sendall(self, data: bytes, /) -> None:
        """Send this."""
        self.machine.send(self.who, data)


_SIGNALLING = threading.Lock()
"""Held from the decision whether a task is stopped until it is; faults have threads of their own."""


@dataclass
class Task:
    """One incarnation of a task of a running cluster.

    A restart puts a new object in the place of this one, which then stands for a process that is dead. The fields are
    written by the run's own thread and read by anyone.
    """

    name: str
    is_client: bool
    log_path: Path
    stacks_path: Path
    incarnation: int = 0
    # Where its process is, and the number that it has there.
    machine: Machine | None = None
    pid: int | None = None
    connection: Hears | None = None
    # Whether its agent connects for certain; a program may be none of Python's, or never ask for it.
    greets: bool = True
    ready: bool = False
    # A client that was told to call the function.
    told: bool = False
    steps: int = 0
    # When its process was asked for, and when that announced its first step; seconds of CLOCK_MONOTONIC.
    asked_at: float = 0.0
    first_step_at: float | None = None
    # In what way an unmodified program's steps are counted, once that is known.
    counted_by: str | None = None
    # What it computes on, once TensorFlow has been prepared there.
    devices: tuple[str, ...] = ()
    # Of the last step of which it is known.
    loss: float | None = None
    # The gate at which the task waits for the parent, such as `step:20`.
    at_gate: str | None = None
    # What it saves or restores now, by the number that it has given to it.
    saving: dict[int, OpenSave] = field(default_factory=dict)
    # What it has saved and restored.
    saves: list[Saved] = field(default_factory=list)
    # A digest of what it trains, when it takes its first gradient.
    begins_with: int | None = None
    result: bytes | None = None
    error: TaskError | None = None
    exit: int | None = None
    ended: bool = False
    # The function raised and the agent said so: the process is about to end by itself, with exit code 1.
    leaving: bool = False
    # The faults that hold it stopped now, and those that bound one of its resources, each with that.
    stopped_by: set[str] = field(default_factory=set)
    bounded_by: set[tuple[int, str]] = field(default_factory=set)
    # What the agent has reported of each fault that it was told to apply, by the fault's id.
    acted: dict[str, dict[str, Any]] = field(default_factory=dict)
    # A fault of the plan ends it: neither its exit nor its last exception is a failure of the run.
    planned: bool = False
    # Set before Lockstep itself ends the process, so that the exit is not taken for a failure.
    stopped: bool = False
    # It has returned, and was told to end although others have not.
    let_go: bool = False
    # When it had returned, or its program had ended with exit code 0.
    done_at: float | None = None
    # It was sent SIGKILL, as a crash of its own: the run does not stop it before it has seen that.
    killed: bool = False
    # The end was asked for and a new incarnation follows, so that the run waits for that one.
    comes_back: bool = False
    # The incarnations before this one.
    earlier: tuple[Incarnation, ...] = ()

    @property
    def job(self) -> str:
        """`worker` of `worker:1`."""
        return self.name.partition(":")[0]

    @property
    def index(self) -> int:
        """1 of `worker:1`."""
        return int(self.name.partition(":")[2])

    @property
    def who(self) -> Who:
        """This process, among all of the run."""
        return Who(self.name, self.incarnation)

    @property
    def alive(self) -> bool:
        """Whether the process was started and has not ended. It leads a process group."""
        return self.pid is not None and not self.ended

    @property
    def is_up(self) -> bool:
        """Whether it lives and has greeted; of a program none of whose processes has, whether it leads its group."""
        return self.connection is not None or (self.alive and not self.greets and self.signal_group(0))

    @property
    def finished(self) -> bool:
        """Whether nothing more is to be expected: it returned, failed, or ended and does not come back."""
        return self.result is not None or self.error is not None or (self.ended and not self.comes_back)

    def announce_end(self, *, comes_back: bool = False) -> None:
        """Say that this process is about to be ended by plan, so that its exit is no failure of the run.

        Args:
            comes_back: `Run.restart` will follow; until then the run does not count the task as finished.
        """
        self.planned = self.stopped = True
        self.comes_back = comes_back

    def send(self, message: ToTask) -> None:
        """Tell its agent something; nothing happens if it has gone."""
        if self.connection is not None:
            with contextlib.suppress(OSError):  # it has just ended, which the event loop reports
                self.connection.sendall(encode(message))

    def send_signal(self, number: int) -> None:
        """Send a signal to the task's process, if it is still alive."""
        self._signal(number, PROCESS)

    def ask_stacks(self) -> None:
        """Have the process write its Python stacks, which an agent does; one that would die of that is left alone."""
        self._signal(signal.SIGUSR2, CATCHING if self.connection is None else PROCESS)

    def _signal(self, number: int, to: str) -> None:
        if self.alive and self.machine is not None:
            self.machine.signal([self.who], int(number), to)

    def kill(self) -> None:
        """SIGKILL the task's process, as a crash of its machine would; the run will report it."""
        self.killed = self.alive
        self.send_signal(signal.SIGKILL)

    def signal_group(self, number: int) -> bool:
        """Send a signal to the task's whole process group; `False` when nobody is left in it."""
        if self.pid is None or self.machine is None:
            return False
        return self.machine.signal([self.who], int(number), GROUP)

    def stop(self, by: str) -> None:
        """SIGSTOP to its process group, which stays stopped until nobody stops it any more."""
        with _SIGNALLING:
            self.stopped_by.add(by)
            self.signal_group(signal.SIGSTOP)

    def go_on(self, by: str) -> None:
        """SIGCONT to its process group, unless another one stops it as well."""
        with _SIGNALLING:
            self.stopped_by.discard(by)
            if not self.stopped_by:
                self.signal_group(signal.SIGCONT)

    @property
    def half_said(self) -> str:
        """That it has begun a message and not ended it, for the end of a sentence; empty if it has not."""
        return "" if self.machine is None else self.machine.half_said(self.who)

    @property
    def machine_name(self) -> str | None:
        """The name of the machine on which it is; None for this one."""
        return None if self.machine is None or self.machine.name == LOCAL else self.machine.name

    @property
    def log(self) -> str:
        """What the task has written so far."""
        try:
            return self.log_path.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def as_incarnation(self) -> Incarnation:
        """What is worth remembering of this process."""
        return Incarnation(
            number=self.incarnation,
            exit=self.exit,
            signal=signal_name(self.exit),
            error=self.error,
            steps=self.steps,
            stopped=self.stopped,
            loss=self.loss,
            saves=tuple(self.saves),
            machine=self.machine_name,
            begins_with=self.begins_with,
        )

    def _value(self) -> Any:
        """What the function returned; one that cannot be read here fails the task."""
        import dill

        try:
            return None if self.result is None else dill.loads(self.result)  # noqa: S301 - from our own task
        except Exception as error:  # noqa: BLE001 - reading it runs code of the class that was returned
            text = f"what the function returned cannot be read here ({type(error).__name__}: {error})"
            advice = "return plain Python or NumPy data"
            self.error = self.error or TaskError(self.name, "BrokenResult", f"{text}; {advice}", at=time.monotonic())
            return None

    def outcome(self) -> TaskResult:
        """The task's result as users see it."""
        value = self._value()
        return TaskResult(
            task=self.name,
            value=value,
            error=self.error,
            exit=self.exit,
            signal=signal_name(self.exit),
            log=self.log,
            incarnation=self.incarnation,
            steps=self.steps,
            stopped=self.stopped,
            incarnations=(*self.earlier, self.as_incarnation()),
            counted_by=self.counted_by,
            devices=self.devices,
            machine=self.machine_name,
            loss=self.loss,
            done_at=self.done_at,
        )
