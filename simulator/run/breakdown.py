"""What becomes of an exception in a thread that a run cannot do without: the run fails with it, at once."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable

from simulator.errors import TaskError
from simulator.machines.local.disk_space import no_room
from simulator.threads import Worker


class Breakdown:
    """The first exception that ended work of Lockstep's own; Python would print it, and the run would wait for ever.

    Args:
        changed: the run's condition, notified at each report.
    """

    def __init__(self, changed: threading.Condition) -> None:
        self.cause: TaskError | None = None
        self.changed = changed

    def report(self, what: str, error: BaseException) -> None:
        """Fail the run: `what`, such as `the journal cannot be written`, because of `error`. The first one counts.

        Who calls it must not hold a lock for which somebody may wait that holds the run's condition.
        """
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        # What the machine lacks is said in one sentence; only a defect of Lockstep needs to show where it was.
        shown = "" if isinstance(error, OSError) else text
        message = f"{what}: {error}{no_room(error)}"
        cause = TaskError("lockstep", type(error).__name__, message, traceback=shown, at=time.monotonic())
        with self.changed:
            self.cause = self.cause or cause
            self.changed.notify_all()

    def worker(self, name: str, work: Callable[[], None], what: str) -> Worker:
        """A thread, not started yet, that reports the exception with which `work` ends.

        Args:
            name: of the thread.
            work: what it does.
            what: what does not happen any more without it, such as `faults are not undone`.
        """
        return Worker(name, work, lambda error: self.report(what, error))
