"""What a machine is to a run: it starts tasks, hears and signals them, and ends them for certain.

A run asks its machines and knows nothing else of where its tasks are. A call is one of a *machine*, for any number of
its tasks. What tasks say and how they end comes as events, in order for each task, each with the time when it happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from simulator.wire.events import TaskEvent, Who
from simulator.wire.spec import TaskSpec

# The name of the machine of this process.
LOCAL = "local"
# The folder of a run for what tasks on other machines have left, and that of each of these machines.
LEFT = "left"
# Whom a signal is for: the task's process, its whole group, or its process if it would not die of it.
PROCESS, GROUP, CATCHING = "process", "group", "catching"


class Process(Protocol):
    """A process that was started for a task; it leads a process group of its own."""

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def sentinel(self) -> int:
        """A file descriptor that becomes readable when it has ended."""

    @property
    def lost(self) -> bool:
        """Whether it has ended, and nobody is left who could say how."""

    @property
    def ended_at(self) -> float | None:
        """When its end was seen where it was started, in seconds of CLOCK_MONOTONIC; `None` if that is not known."""

    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; `None` while the process runs. Does not block."""

    def end(self, seconds: float) -> None:
        """Wait for its end, and kill it if that does not come within so many seconds."""


# -- events of machines; times are seconds of CLOCK_MONOTONIC of the process that holds the run


@dataclass(frozen=True)
class Broke:
    """Something of the machine's own does not work any more: `what`, because of `error`."""

    what: str
    error: BaseException


@dataclass(frozen=True)
class Silent:
    """The machine has not been heard for a while, since `at`; it will be heard, or be lost."""

    machine: str
    at: float


@dataclass(frozen=True)
class MachineSilent:
    """The machine is not heard any more; its tasks are dead, or will be before anything is started in their place."""

    machine: str
    why: str
    at: float


Event = TaskEvent | Broke | Silent | MachineSilent


@dataclass(frozen=True)
class MachineFacts:
    """What a run has to know of a machine before it gives it tasks.

    Attributes:
        cores: how many threads its tasks can run at once.
    """

    cores: int


@dataclass(frozen=True)
class MachineShare:
    """The part of a run that is a machine's.

    Attributes:
        tasks: those that it runs.
        networked: those of them that need a port for their server.
        directory: where the run keeps logs, stacks and what tasks leave, in folders of these names.
        launcher: pickles how a task becomes a process, for a machine that is not this one.
    """

    tasks: tuple[str, ...]
    networked: tuple[str, ...]
    directory: Path = Path()
    launcher: Callable[[], bytes] = bytes


class Machine(Protocol):
    """Where tasks of a run are. No call of it waits for a task, and none waits for ever."""

    @property
    def name(self) -> str:
        """By which users know it."""

    @property
    def facts(self) -> MachineFacts:
        """What is known of it."""

    @property
    def clock_error(self) -> float:
        """By how much times of its events may be wrong now, in seconds."""

    @property
    def there(self) -> bool:
        """Whether it has not been lost."""

    @property
    def dead_at(self) -> float:
        """From when on its tasks are dead for certain, if it is lost, in seconds of CLOCK_MONOTONIC."""

    @property
    def silent(self) -> bool:
        """Whether it is not heard for now, so that what has become of it is open; it will be heard, or be lost."""

    def listen(self, hear: Callable[[Event], None]) -> None:
        """Have `hear` called with every event, in a thread of the machine's; before anything is opened.

        `hear` raises `simulator.wire.framing.Malformed` where a task has said what cannot be taken in.
        """

    def sees(self, directory: Path) -> bool:
        """Whether a directory of this process is the same one there, which is tried.

        Raises:
            OSError: nothing can be written into it.
        """

    def open(self, share: MachineShare) -> Mapping[str, str]:
        """Get ready for these tasks, and return `host:port` of each one's server."""

    def launch(self, specs: Sequence[TaskSpec]) -> None:
        """Start the processes of these tasks; `Launched` comes for each of them before this returns.

        Of a specification the machine itself fills in what is its own: paths, the key, and its environment around the
        variables that are given.
        """

    def send(self, who: Who, data: bytes) -> None:
        """Tell the agent of a task something, in order; nothing happens if it has gone. Does not block."""

    def signal(self, who: Sequence[Who], number: int, to: str) -> bool:
        """Send a signal to `PROCESS`, `GROUP` or `CATCHING` of each; False if it is known that none is there."""

    def half_said(self, who: Who) -> str:
        """That a task has begun a message and not ended it, for the end of a sentence; empty if it has not."""

    def end(self, who: Sequence[Who], grace: float | None, seconds: float = 30.0) -> frozenset[Who]:
        """End the process groups of these for certain: TERM, after `grace` seconds KILL, and the proof.

        Args:
            who: which processes; they may have ended, and what they have started may be left.
            grace: None for KILL at once.
            seconds: how long to wait for the proof.

        Returns:
            Those that had ended and had left something behind in their group.

        Raises:
            DeadlineExceeded: something is still alive.
        """

    def power_off(self) -> None:
        """End it at once, with all that runs there, as the loss of its power would; `MachineSilent` follows."""

    def cut(self) -> None:
        """Pull its cable, by which everybody reaches it; `MachineSilent` follows, when its lease is over.

        Raises:
            LockstepError: that could not be done.
        """

    def close(self) -> Sequence[int]:
        """Kill what tasks have left behind, give back what `open` took; process ids of what was killed.

        Harmless if nothing was opened. Every task has been ended before.
        """
