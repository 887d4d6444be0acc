"""What a run leaves behind: one outcome for each task, or the error that says which failed first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.errors import LockstepError, TaskError
from simulator.wire.network import LinkCounters

__all__ = ["Incarnation", "PlannedFault", "RunFailed", "RunResult", "TaskResult"]


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
    """

    number: int
    exit: int | None
    signal: str | None
    error: TaskError | None
    steps: int
    stopped: bool


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
    """

    name: str
    kind: str
    where: str
    trigger: str
    fired: bool


@dataclass(frozen=True)
class RunResult(Mapping[str, TaskResult]):
    """Outcome of every task of a run, by name: `result["worker:1"].value`.

    Attributes:
        tasks: the outcome of each task.
        seconds: from the first port to the last exit.
        directory: the run's logs and journal.
        links: what each directed link between tasks has carried, in a cluster with a relay or with hosts.
        faults: what came of each fault of the plan.
    """

    tasks: Mapping[str, TaskResult]
    seconds: float
    directory: Path
    links: tuple[LinkCounters, ...] = ()
    faults: tuple[PlannedFault, ...] = ()

    def __getitem__(self, task: str) -> TaskResult:
        try:
            return self.tasks[task]
        except KeyError:
            raise KeyError(f"no task {task!r}; tasks are {', '.join(self.tasks)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)


class RunFailed(LockstepError):
    """Raised when a run did not end as asked: a task failed, hung or vanished, or an expected failure never came.

    The message names the root cause first (the earliest failure by the monotonic clock) with its own traceback, then
    the failures of its peers, one line each. `result` holds every task's outcome; `during` says which of several runs
    it was.
    """

    def __init__(
        self,
        causes: tuple[TaskError, ...],
        result: RunResult,
        *,
        stacks: Mapping[str, str] | None = None,
        during: str = "",
    ) -> None:
        self.causes = tuple(sorted(causes, key=lambda cause: cause.at))
        self.result = result
        self.stacks = dict(stacks or {})
        self.during = during
        super().__init__(self._describe())

    @property
    def root_cause(self) -> TaskError:
        """The earliest failure."""
        return self.causes[0]

    def _describe(self) -> str:
        first, *others = self.causes
        where = f"in {self.during}, " if self.during else ""
        lines = [f"{where}{first.task} failed first: {first.kind}: {_first_line(first.message, 400)}"]
        if first.traceback:
            lines += ["", f"--- traceback of {first.task}", _shortened(first.traceback.rstrip())]
        else:
            tail = self.result[first.task].log_tail() if first.task in self.result else ""
            if tail:
                lines += ["", f"--- end of the log of {first.task}", tail]
        if others:
            lines += ["", "then:"]
            lines += [
                f"  +{other.at - first.at:.2f} s {other.task}: {other.kind}: {_first_line(other.message)}"
                for other in others
            ]
        lines += self._restarts()
        for task, text in self.stacks.items():
            lines += ["", f"--- Python stacks of {task}", text.rstrip()]
        return "\n".join(lines)

    def _restarts(self) -> list[str]:
        lines = []
        for name, task in self.result.items():
            past = task.incarnations[:-1]
            if any(cause.task == name for cause in self.causes) and past:
                times = "once" if len(past) == 1 else f"{len(past)} times"
                ends = ", ".join(each.error.message if each.error else "ended by Lockstep" for each in past)
                lines += ["", f"{name} had been restarted {times}; before that: {_first_line(ends)}"]
        return lines


def _shortened(text: str, most: int = 80) -> str:
    """Leave out the middle of a long traceback: messages of TensorFlow may hold whole tensors and graphs."""
    lines = text.splitlines()
    if len(lines) <= most:
        return text
    kept = most // 2
    return "\n".join([*lines[:kept], f"... ({len(lines) - most} lines left out)", *lines[-kept:]])


def _first_line(text: str, limit: int = 200) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= limit else line[: limit - 1] + "…"
