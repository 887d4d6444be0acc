"""Everything the simulator raises on purpose; each error names the task and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.results import RunResult

__all__ = ["DeadlineExceeded", "LockstepError", "RunFailed", "TaskError", "UsageError"]


class LockstepError(Exception):
    """Base of every error that Lockstep raises on purpose."""


class UsageError(LockstepError, ValueError):
    """Raised when what was asked for makes no sense; nothing has been started yet."""


class DeadlineExceeded(LockstepError, TimeoutError):
    """Raised when a named wait did not end in time."""

    def __init__(self, waiting_for: str, seconds: float, detail: str = "") -> None:
        self.waiting_for = waiting_for
        self.seconds = seconds
        super().__init__(f"gave up after {seconds:g} s waiting for {waiting_for}" + (f": {detail}" if detail else ""))


class TaskError(LockstepError):
    """What went wrong inside one task, as its agent reported it or as its exit showed.

    Attributes:
        task: `job:index`, for example `worker:1`.
        kind: class name of the exception raised in the task, or `Exit`, `Signal`, `NoResult`, `Hang`, `NeverStarted`.
        message: the exception's message.
        traceback: the task's own traceback text; empty when it had no chance to report one.
        at: CLOCK_MONOTONIC seconds of the failure; the earliest failure of a run is its root cause.
        bases: names of the exception's classes, most derived first.
    """

    def __init__(
        self,
        task: str,
        kind: str,
        message: str,
        *,
        traceback: str = "",
        at: float = 0.0,
        bases: tuple[str, ...] = (),
    ) -> None:
        self.task = task
        self.kind = kind
        self.message = message
        self.traceback = traceback
        self.at = at
        self.bases = bases or (kind,)
        super().__init__(f"{task}: {kind}: {message}")


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
