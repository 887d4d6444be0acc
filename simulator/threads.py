"""The one owner of threads: each has a name, tells somebody of the error that ends it, and is joined in time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from simulator.errors import DeadlineExceeded

# Work that was told to end does so within a moment; this is for a machine under load, and for a restart under way.
_END_SECONDS_MAX = 120.0


class Worker:
    """A thread of Lockstep's own, which ends with the process at the latest.

    Args:
        name: what the thread does, in a word; stacks show it as `lockstep-NAME`.
        work: what it does.
        fail: gets the error by which the work ends. Without it the work answers for its errors itself, and one that it
            does not expect is a defect, which Python prints.
    """

    def __init__(
        self, name: str, work: Callable[[], object], fail: Callable[[BaseException], None] | None = None
    ) -> None:
        self._work = work
        self._fail = fail
        self._thread = threading.Thread(target=self._main, name=f"lockstep-{name}", daemon=True)

    @classmethod
    def started(
        cls, name: str, work: Callable[[], object], fail: Callable[[BaseException], None] | None = None
    ) -> Worker:
        """One that works already."""
        worker = cls(name, work, fail)
        worker.start()
        return worker

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def ends(self, seconds: float) -> bool:
        """Wait for its end; whether that has come within so many seconds. At once where it waits for itself."""
        if threading.current_thread() is not self._thread and self._thread.ident is not None:
            self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def join(self) -> None:
        """Wait for the end of what was told to end, or was never begun; nothing happens in the thread itself.

        Raises:
            DeadlineExceeded: it does not end.
        """
        if not self.ends(_END_SECONDS_MAX) and threading.current_thread() is not self._thread:
            raise DeadlineExceeded(f"thread {self._thread.name} to end", _END_SECONDS_MAX)

    def _main(self) -> None:
        try:
            self._work()
        except BaseException as error:
            if self._fail is None:
                raise
            self._fail(error)
