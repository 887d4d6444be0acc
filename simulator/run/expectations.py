"""Failures that a run must show, and the failures that nobody asked for."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulator.errors import TaskError
from simulator.results import Incarnation
from simulator.run.task import Task
from simulator.topology import matching


@dataclass(frozen=True)
class Expectation:
    """A failure that must happen: which tasks, the exception's class (or a base), part of its message, the exit."""

    task: str
    error: str | None = None
    match: str | None = None
    exit: int | None = None

    def fits(self, failed: Task | Incarnation) -> bool:
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


def unexpected(tasks: Mapping[str, Task], expectations: Sequence[Expectation]) -> tuple[TaskError, ...]:
    """The failures that no expectation covers, and one for each expectation that no failure has met."""
    causes = []
    met: set[Expectation] = set()
    for task in tasks.values():
        wishes = [wish for wish in expectations if matching(wish.task, [task.name])]
        # A failure that a restart has made good still came.
        met.update(wish for wish in wishes if any(wish.fits(past) for past in task.earlier))
        fitting = [wish for wish in wishes if wish.fits(task)]
        met.update(fitting)
        if task.error is not None and not fitting:
            causes.append(task.error)
    for wish in expectations:
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
