"""A clock that is ahead, for the program of one task: two runs that begin in one second would draw alike from it."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

__all__ = ["moved_clock"]


@contextlib.contextmanager
def moved_clock(seconds: float) -> Iterator[None]:
    """Within this context the time of day is so many seconds ahead, in `time` and in `datetime`.

    A program has to be imported within it, so that what it takes from these modules by name is ahead as well. Not moved
    are clocks that count from the start of the machine, `tf.timestamp`, and the times of files.
    """
    if not seconds:
        yield
        return
    now, now_ns, clock = time.time, time.time_ns, time.clock_gettime

    def moved() -> float:
        return now() + seconds

    def moved_ns() -> int:
        return now_ns() + int(seconds * 1e9)

    def moved_clock_gettime(number: int) -> float:
        return clock(number) + (seconds if number == time.CLOCK_REALTIME else 0.0)

    with contextlib.ExitStack() as stack:
        for name, value in (("time", moved), ("time_ns", moved_ns), ("clock_gettime", moved_clock_gettime)):
            stack.enter_context(mock.patch.object(time, name, value))
        for name in ("localtime", "gmtime", "ctime"):
            stack.enter_context(mock.patch.object(time, name, _of_now(getattr(time, name), moved)))
        formatted = time.strftime
        stack.enter_context(
            mock.patch.object(time, "strftime", lambda form, *given: formatted(form, *(given or (time.localtime(),))))
        )
        # `date.today` asks `time.time`, `datetime.now` asks the system.
        stack.enter_context(mock.patch.object(dt, "datetime", _ahead(dt.timedelta(seconds=seconds))))
        yield


def _of_now(original: Any, moved: Any) -> Any:
    """The function, which without an argument, or with None, is of the present time."""

    @functools.wraps(original)
    def of(seconds: float | None = None) -> Any:
        return original(moved() if seconds is None else seconds)

    return of


class _Alike(type):
    """Makes objects of the original class count as objects of the one that stands for it."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__mro__[1])


def _ahead(by: dt.timedelta) -> type:
    """A class that stands for `datetime.datetime`."""

    class Later(dt.datetime, metaclass=_Alike):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return super().now(tz) + by

        @classmethod
        def utcnow(cls) -> Any:
            return cls.now(dt.timezone.utc).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return cls.now()

    return Later
