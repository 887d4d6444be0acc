"""Timers that keep their time to some tens of microseconds, which the timeouts of epoll do not.

asyncio waits through epoll, whose timeout is in whole milliseconds. On Linux a timerfd wakes the loop instead; it is in
`os` from Python 3.13 and comes through ctypes before. Elsewhere the loop's own timers are used.
"""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import itertools
import os
import sys
import time
from collections.abc import Callable

# Woken so much earlier at most, to make up for the time that a process needs to wake up.
_LEAD_SECONDS_MAX = 200e-6
_LEAD_WEIGHT = 0.05
# <sys/timerfd.h>; the flags have the values of O_NONBLOCK and O_CLOEXEC.
_TFD_TIMER_ABSTIME = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Timers:
    """Calls functions at given times of CLOCK_MONOTONIC, in the thread of the loop; never before.

    Between a timer and the process that runs there lie some tens of microseconds. They are measured at each timer, and
    the next is set so much earlier; who comes too early waits for the rest in place.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._armed = float("inf")
        self._lead = 0.0
        self._fd, self._settime, self.kind = _open_timer()
        if self._fd is not None:
            loop.add_reader(self._fd, self._expired)

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call `call()` at `when`, or as soon as possible after it."""
        heapq.heappush(self._heap, (when, next(self._order), call))
        if when < self._armed:
            self._arm(when)

    async def sleep_until(self, when: float) -> None:
        """Come back at `when`."""
        future: asyncio.Future[None] = self._loop.create_future()
        self.at(when, lambda: None if future.done() else future.set_result(None))
        await future

    def _expired(self) -> None:
        if self._fd is not None:
            try:
                os.read(self._fd, 8)
            except BlockingIOError:
                return
            late = min(_LEAD_SECONDS_MAX, time.monotonic() - (self._armed - self._lead))
            self._lead += _LEAD_WEIGHT * (late - self._lead)
        self._run()

    def _run(self) -> None:
        self._armed = float("inf")
        while self._heap and self._heap[0][0] - self._lead <= time.monotonic():
            when, _, call = heapq.heappop(self._heap)
            while time.monotonic() < when:
                pass
            call()
        if self._heap and self._heap[0][0] < self._armed:
            self._arm(self._heap[0][0])

    def _arm(self, when: float) -> None:
        self._armed = when
        if self._settime is None:
            self._loop.call_at(when, self._run)
        else:
            # Zero would disarm it.
            self._settime(max(1, int((when - self._lead) * 1e9)))


def _open_timer() -> tuple[int | None, Callable[[int], None] | None, str]:
    """File descriptor, function that arms it with nanoseconds of CLOCK_MONOTONIC, and where it comes from."""
    if sys.platform != "linux":
        return None, None, "loop"
    if sys.version_info >= (3, 13):
        fd = os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)
        return fd, lambda ns: _set_with_os(fd, ns), "os.timerfd"
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        fd = libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
    except AttributeError:
        return None, None, "loop"
    if fd < 0:
        return None, None, "loop"
    return fd, lambda ns: _set_with_ctypes(libc, fd, ns), "ctypes timerfd"


def _set_with_os(fd: int, nanoseconds: int) -> None:
    if sys.version_info >= (3, 13):
        os.timerfd_settime_ns(fd, flags=os.TFD_TIMER_ABSTIME, initial=nanoseconds)


def _set_with_ctypes(libc: ctypes.CDLL, fd: int, nanoseconds: int) -> None:
    wanted = _Itimerspec(_Timespec(0, 0), _Timespec(*divmod(nanoseconds, 10**9)))
    if libc.timerfd_settime(fd, _TFD_TIMER_ABSTIME, ctypes.byref(wanted), None) != 0:
        raise OSError(ctypes.get_errno(), "timerfd_settime")
