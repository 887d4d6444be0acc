"""Calls that no signal breaks off: between the fork of a process and its registration nobody may be interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from simulator.threads import Worker

_Value = TypeVar("_Value")


class _Undivided:
    """One call in a thread of its own, since Python runs handlers of signals in the main thread."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._begun = self._cancelled = False
        self._over = threading.Event()
        self.value: object = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """What the thread does."""
        with self._lock:
            if self._cancelled:
                return
            self._begun = True
        try:
            self.value = self._call()
        except BaseException as error:  # noqa: BLE001 - it is raised where the call was asked for
            self.error = error
        finally:
            self._over.set()

    def wait(self) -> None:
        """Start the thread and wait for the end of the call, whatever interrupts this; raise what did so, then."""
        interruption: BaseException | None = None
        try:
            Worker.started("undivided", self.run)
        except BaseException as error:  # noqa: BLE001 - raised below
            interruption = error
            with self._lock:
                # The thread may have been started or not.
                self._cancelled = not self._begun
        while not self._cancelled and not self._over.is_set():
            try:
                self._over.wait()
            except BaseException as error:  # noqa: BLE001 - raised below
                interruption = interruption or error
        if interruption is not None:
            raise interruption


def uninterrupted(call: Callable[[], _Value]) -> _Value:
    """Return `call()`, which a signal to this process does not break off.

    A handler that raises, as that of Ctrl-C, does so here, after the call is over: what it has started is then known to
    whom it was to be known. The call must not take long, and takes no lock that its caller holds.
    """
    asked = _Undivided(call)
    asked.wait()
    if asked.error is not None:
        raise asked.error
    return asked.value  # type: ignore[return-value]  # of the call
