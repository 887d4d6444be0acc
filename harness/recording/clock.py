"""A clock that is ahead, for the program of one task: two runs that begin in one second would draw alike from it."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

_SINCE_START = ("monotonic", "perf_counter")
"""Clocks of `time` that count from the start of the machine, and have a twin in nanoseconds."""


@contextlib.contextmanager
def moved_clock(seconds: float, rate: float = 1.0) -> Iterator[None]:
    """Within this context the time of day is so many seconds ahead, in `time` and in `datetime`.

    A program has to be imported within it, so that what it takes from these modules by name is ahead as well. Not moved
    are `tf.timestamp` and the times of files; nor, at a rate of 1, clocks that count from the start of the machine.

    Args:
        seconds: by which it is ahead.
        rate: how fast it goes.
    """
    if not seconds and rate == 1.0:
        yield
        return
    now, clock = time.time, time.clock_gettime
    began = now()

    def ahead() -> float:
        return seconds + (rate - 1.0) * (now() - began)

    def moved() -> float:
        return now() + ahead()

    def moved_clock_gettime(number: int) -> float:
        return clock(number) + (ahead() if number == time.CLOCK_REALTIME else 0.0)

    with contextlib.ExitStack() as stack:

        def replace(name: str, value: Any) -> None:
            stack.enter_context(mock.patch.object(time, name, value))

        for name in _SINCE_START if rate != 1.0 else ():
            replace(name, faster := _faster(getattr(time, name), rate))
            replace(f"{name}_ns", _in_nanoseconds(faster))
        replace("time", moved)
        replace("time_ns", _in_nanoseconds(moved))
        replace("clock_gettime", moved_clock_gettime)
        for name in ("localtime", "gmtime", "ctime"):
            replace(name, _of_now(getattr(time, name), moved))
        formatted = time.strftime
        replace("strftime", lambda form, *given: formatted(form, *(given or (time.localtime(),))))
        # `date.today` asks `time.time`, `datetime.now` asks the system.
        stack.enter_context(mock.patch.object(dt, "datetime", _ahead(ahead)))
        yield


def _faster(clock: Callable[[], float], rate: float) -> Callable[[], float]:
    began = clock()
    return lambda: began + rate * (clock() - began)


def _in_nanoseconds(clock: Callable[[], float]) -> Callable[[], int]:
    return lambda: int(clock() * 1e9)


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


def _ahead(seconds: Callable[[], float]) -> type:
    """A class that stands for `datetime.datetime`."""

    class Later(dt.datetime, metaclass=_Alike):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return super().now(tz) + dt.timedelta(seconds=seconds())

        @classmethod
        def utcnow(cls) -> Any:
            return cls.now(dt.timezone.utc).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return cls.now()

    return Later
