"""What a run leaves behind: one outcome for each task, or the error that says which failed first."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulator.errors import LockstepError, TaskError
from simulator.journal.startup_lines import StartupLines
from simulator.wire.network import LinkCounters

_RAISED = re.compile(r"\w*(Error|Exception): ")
_IN_LAYER = "Exception encountered when calling layer"


@dataclass(frozen=True)
class Saved:
    """A save or restore of a task.

    Attributes:
        kind: the outermost call, such as `tf.train.CheckpointManager.save`.
        path: where, or `None` where nothing was restored because there was nothing.
        step: number of the last training step that the task had announced by then.
        restores: whether it read.
        failed: class of the exception with which it ended, or `None`.
        unfinished: whether the process ended before it did; what it writes may be complete nevertheless.
        state: a digest of some of what the task trains, when it began; None where that is not known.
    """

    kind: str
    path: str | None
    step: int
    restores: bool
    failed: str | None
    unfinished: bool = False
    state: int | None = None


@dataclass(frozen=True)
class Incarnation:
    """One process of a task that may have had several, one after another.

    Attributes:
        number: 0 for the first.
        exit: exit code; minus the signal number when a signal ended it; `None` if it never started.
        signal: name of that signal, or `None`.
        error: what went wrong in it, or `None`.
        steps: number of the last training step that it announced, counted from 1 in each incarnation.
        stopped: whether its end was asked for: by a plan, or because Lockstep restarted it.
        loss: of the last step of which it is known, or `None`.
        saves: what it saved and restored, in the order in which that ended.
        machine: the name of that on which it ran; `None` for this one.
        begins_with: as `Saved.state`, when it took its first gradient.
    """

    number: int
    exit: int | None
    signal: str | None
    error: TaskError | None
    steps: int
    stopped: bool
    loss: float | None = None
    saves: tuple[Saved, ...] = ()
    machine: str | None = None
    begins_with: int | None = None


@dataclass(frozen=True)
class TaskResult:
    """How one task ended.

    Attributes:
        task: `job:index`.
        value: what the function returned; tensors arrive as NumPy arrays. `None` for a server task or after a failure.
        error: what went wrong in this task, or `None`.
        exit: exit code of the process; minus the signal number when a signal ended it; `None` if it never started.
        signal: name of that signal, or `None`.
        log: what the task wrote to stdout and stderr, together and in order.
        incarnation: 0 for the first process of this task, one more after each restart.
        steps: number of the last training step that the task announced; 0 when it announced none.
        stopped: whether Lockstep itself ended the process (a server no longer needed, or a peer of a failed task).
        incarnations: every process of this task in order, the last one included.
        counted_by: in what way the steps of an unmodified program were counted; `None` if they were not.
        loss: of the last step of an unmodified program of which it is known, or `None`.
        devices: what it computed on: a description of each GPU, or `cpu:N`; empty where Lockstep has not prepared
            TensorFlow, as in an unmodified program on `cpu:1`.
        machine: the name of that on which it ran; `None` for this one.
        done_at: when it had returned, or had ended with exit code 0, in seconds of CLOCK_MONOTONIC; `None` if neither.
    """

    task: str
    value: Any
    error: TaskError | None
    exit: int | None
    signal: str | None
    log: str
    incarnation: int
    steps: int
    stopped: bool
    incarnations: tuple[Incarnation, ...] = ()
    counted_by: str | None = None
    loss: float | None = None
    devices: tuple[str, ...] = ()
    machine: str | None = None
    done_at: float | None = None

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.rstrip().splitlines()[-lines:])


@dataclass(frozen=True)
class PlannedFault:
    """What came of a fault of the plan.

    Attributes:
        name: its id.
        kind: such as `kill`.
        where: the tasks that it struck, or the link, `worker:0 -> worker:1`.
        trigger: what it waited for, `step=7 of worker:1`.
        fired: whether that came, and the effect was seen.
        at: when that was, in seconds of CLOCK_MONOTONIC, or `None`.
        ended: the tasks that it ended and that nobody has started again.
    """

    name: str
    kind: str
    where: str
    trigger: str
    fired: bool
    at: float | None = None
    ended: tuple[str, ...] = ()

    @property
    def when(self) -> str:
        """The trigger, without its tasks where those are the ones that it struck."""
        return self.trigger.removesuffix(f" of {self.where}")


@dataclass(frozen=True)
class RunResult(Mapping[str, TaskResult]):
    """Outcome of every task of a run, by name: `result["worker:1"].value`.

    Attributes:
        tasks: the outcome of each task.
        seconds: from the first port to the last exit.
        directory: the run's logs and journal.
        links: what each directed link between tasks has carried, in a cluster with a relay or with hosts.
        faults: what came of each fault of the plan.
        clocks: by machine, by how much times of what happened there may be wrong, in seconds.
        met: whether a program was seen connected to the address of another; `None` where `links` would say it.
    """

    tasks: Mapping[str, TaskResult]
    seconds: float
    directory: Path
    links: tuple[LinkCounters, ...] = ()
    faults: tuple[PlannedFault, ...] = ()
    clocks: Mapping[str, float] = field(default_factory=dict)
    met: bool | None = None

    def __getitem__(self, task: str) -> TaskResult:
        try:
            return self.tasks[task]
        except KeyError:
            raise KeyError(f"no task {task!r}; tasks are {', '.join(self.tasks)}") from None

    def doubt(self, one: str, other: str) -> float:
        """How far apart two events of these tasks have to be, in seconds, for their order to be known."""
        machines = {self.tasks[task].machine for task in (one, other) if task in self.tasks}
        return sum(self.clocks.get(machine or "", 0.0) for machine in machines) if len(machines) > 1 else 0.0

    def __iter__(self) -> Iterator[str]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)


_HELPERS_ENDED = ("RelayEnded", "KeeperEnded", "ForkserverEnded")
_HEARD_SECONDS = 1.0
"""So long after tasks have lost what a helper of Lockstep's kept for them its end may be heard."""
_SEEN_SECONDS = 0.1
"""So long after a peer has missed a task its end may be seen; a SIGKILL is no consequence of how a peer ends."""


def _when(cause: TaskError, result: RunResult) -> float:
    """When something failed, for the order of causes."""
    if cause.kind in _HELPERS_ENDED:
        return cause.at - _HEARD_SECONDS
    task = result.tasks.get(cause.task)
    return cause.at - (_SEEN_SECONDS if task is not None and task.exit == -signal.SIGKILL else 0.0)


class RunFailed(LockstepError):
    """Raised when a run did not end as asked: a task failed, hung or vanished, or an expected failure never came.

    The message names the root cause first (the earliest failure by the monotonic clock) with its own traceback, then
    the failures of its peers, one line each. If a planned fault had ended a task that nobody started again, that comes
    before. `result` holds every task's outcome; `during` says which of several runs it was; `shown` is whether all logs
    have been shown while it went on.
    """

    def __init__(
        self,
        causes: tuple[TaskError, ...],
        result: RunResult,
        *,
        stacks: Mapping[str, str] | None = None,
        during: str = "",
        shown: bool = False,
    ) -> None:
        self.causes = tuple(sorted(causes, key=lambda cause: _when(cause, result)))
        self.result = result
        self.stacks = dict(stacks or {})
        self.during = during
        self.shown = shown
        super().__init__(self._describe())

    @property
    def root_cause(self) -> TaskError:
        """The earliest failure."""
        return self.causes[0]

    @property
    def last_line(self) -> str:
        """What the task wrote last that failed first, before its traceback; empty where it wrote nothing."""
        first = self.root_cause
        log = self.result[first.task].log if first.task in self.result else ""
        return _tail(log.rstrip().removesuffix(first.traceback.strip()), 1)

    def _describe(self) -> str:
        first, *others = self.causes
        where = f"in {self.during}, " if self.during else ""
        said = f"{first.task} failed first{self._undecided()}: {_headline(first, 400)}"
        planned = self._planned(first, where)
        lines = [*planned, said] if planned else [f"{where}{said}"]
        lines += self._done_before(first)
        if first.traceback:
            lines += ["", f"--- traceback of {first.task}", _shortened(first.traceback.rstrip())]
        elif not self.shown:
            tail = _tail(self.result[first.task].log) if first.task in self.result else ""
            if tail:
                lines += ["", f"--- end of the log of {first.task}", tail]
        if others:
            lines += ["", "then:"]
            lines += [f"  {max(0.0, other.at - first.at):+.2f} s {other.task}: {_headline(other)}" for other in others]
        lines += self._restarts()
        for task, text in self.stacks.items():
            lines += ["", f"--- Python stacks of {task}", text.rstrip()]
        return "\n".join(lines)

    def _undecided(self) -> str:
        """Who may have failed before the first one, as far as the clocks of their machines tell."""
        first, *others = self.causes
        if any(other.at < first.at for other in others):  # they are known to be its consequences
            return ""
        tied = [
            f"{other.task} on {self.result[other.task].machine}"
            for other in others
            if other.at - first.at < self.result.doubt(first.task, other.task)
        ]
        return f" (or {', '.join(tied)}: the clocks of machines are not known so well)" if tied else ""

    def _done_before(self, first: TaskError) -> list[str]:
        """Who had come to its end before the first failure, of whom that may be the consequence."""
        failed = self.result.tasks.get(first.task)
        return [
            f"{name} was done before that, after step {task.steps}; {first.task} was in step {failed.steps + 1}"
            for name, task in self.result.items()
            if name != first.task and failed is not None and failed.steps and task.steps and task.done_at is not None
            if task.done_at < first.at - self.result.doubt(name, first.task)
        ]

    def _planned(self, first: TaskError, where: str) -> list[str]:
        """The fault that had ended a task before the first failure, of which that is the consequence."""
        for fault in self.result.faults:
            if fault.fired and fault.ended and fault.at is not None and (not first.at or fault.at <= first.at):
                what = f"{where}fault {fault.name} ({fault.kind} at {fault.when}) ended {', '.join(fault.ended)}"
                advice = "allow restarts with --restarts N (in Python restarts=N), or give the fault restart=1s"
                return [f"{what}, and nothing started it again: {advice}"]
        return []

    def _restarts(self) -> list[str]:
        lines = []
        for name, task in self.result.items():
            past = task.incarnations[:-1]
            if any(cause.task == name for cause in self.causes) and past:
                times = "once" if len(past) == 1 else f"{len(past)} times"
                ends = ", ".join(each.error.message if each.error else "ended by Lockstep" for each in past)
                lines += ["", f"{name} had been restarted {times}; before that: {_first_line(ends)}"]
        return lines


def _tail(log: str, lines: int = 20) -> str:
    """The last lines of a log that are not those of TensorFlow's start."""
    startup = StartupLines()
    last = [line for line in log.rstrip().splitlines() if not startup.hides(line)][-lines:]
    return "\n".join(_cut(line, 400) for line in last)


def _shortened(text: str, most: int = 80) -> str:
    """Leave out the middle of a long traceback: messages of TensorFlow may hold whole tensors and graphs."""
    lines = text.splitlines()
    if len(lines) <= most:
        return text
    kept = most // 2
    return "\n".join([*lines[:kept], f"... ({len(lines) - most} lines left out)", *lines[-kept:]])


def _headline(cause: TaskError, limit: int = 200) -> str:
    """The kind and what is wrong; AutoGraph's own text says the kind as well."""
    line = _first_line(cause.message, limit)
    return line if line.startswith(f"{cause.kind}: ") else f"{cause.kind}: {line}"


def _first_line(text: str, limit: int = 200) -> str:
    return _cut(_gist([line.strip() for line in text.strip().splitlines() if line.strip()] or [""]), limit)


def _cut(line: str, limit: int) -> str:
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _gist(lines: list[str]) -> str:
    """The line that says what is wrong; the first one may be no more than where Python was ("in user code:")."""
    if not lines[0].endswith(":"):
        return lines[0]
    raised = max((number for number, line in enumerate(lines) if _RAISED.match(line)), default=0)
    if _IN_LAYER in lines[raised] and raised + 1 < len(lines):
        return lines[raised + 1]
    return lines[raised]
