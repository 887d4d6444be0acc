"""Everything the simulator raises on purpose; each error names the task and what to do next."""

from __future__ import annotations

from collections.abc import Iterable


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


class RunEnded(LockstepError):
    """Raised where a task is to be started again of a run that has come to its end."""


class ForkserverEnded(LockstepError):
    """Raised when a process by which tasks are started was ended by somebody else."""


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


def meant(name: object, names: Iterable[str]) -> str:
    """`did you mean kill? ` if a name is near; nothing otherwise. Capital letters, `-` and `_` make no difference."""
    import difflib

    plain = {each.lower().replace("_", "-"): each for each in names}
    near = difflib.get_close_matches(name.lower().replace("_", "-"), plain, n=1) if isinstance(name, str) else []
    return f"did you mean {plain[near[0]]}? " if near else ""


class HardwareMissing(LockstepError):
    """Raised when a task is to compute on a device that this machine does not have; nothing has been started."""
