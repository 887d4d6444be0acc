"""What a way to start tasks is: functions, programs and hosts are one file each.

A run asks its launcher which tasks are clients, how a task's process begins, and what the end of one means. It knows
nothing else of what tasks execute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from simulator.errors import TaskError
from simulator.machines.protocol import Process
from simulator.topology import Topology
from simulator.wire.spec import TaskSpec

# The kind of a `TaskError`, and its message.
Failure = tuple[str, str]


@dataclass(frozen=True)
class EntryPoint:
    """The first call in the forked process of a task.

    Attributes:
        preload: modules that the forkserver has imported.
        target: what is called.
        args: its arguments.
        variables: of the environment, those that count when modules are imported.
    """

    preload: tuple[str, ...]
    target: Callable[..., None]
    args: tuple[Any, ...]
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ProcessEnd:
    """How the process of a task ended that nobody had asked to.

    Attributes:
        exit: its exit code, minus the number of the signal that ended it.
        signal: the name of that signal, or `None`.
        greeted: whether its agent has reached the parent.
        is_client: whether it is one of `Launcher.clients`.
        returned: whether it has sent a result.
        log: its log.
        half_said: that it has begun a message and not ended it, for the end of a sentence, or nothing.
    """

    exit: int | None
    signal: str | None
    greeted: bool
    is_client: bool
    returned: bool
    log: Path
    half_said: str = ""


class Launcher(Protocol):
    """How every task of a run becomes a process, and what that process then owes the run."""

    @property
    def call(self) -> bytes | None:
        """What clients are told to call when every server listens; `None` where processes are told nothing.

        Where they are told nothing they are on their own: each begins and ends when it likes.
        """

    @property
    def environ(self) -> Mapping[str, str]:
        """Variables of the environment that what is executed asks for."""

    def clients(self, topology: Topology) -> tuple[str, ...]:
        """The tasks that have to finish for the job to be done."""

    def entry(self, spec: TaskSpec) -> EntryPoint:
        """How the process of this task begins."""

    def launch(self, spec: TaskSpec) -> Process:
        """Start it.

        Raises:
            LockstepError: it cannot be started.
        """

    def failure(self, end: ProcessEnd) -> Failure | None:
        """What is wrong with the end of a process; `None` if it ended well."""

    def complaint(self, error: TaskError, log: Path) -> str:
        """The text in which a task that failed says why, with all that its libraries have said."""
