"""The values that the keys of faults take: how each is read, and between which numbers it has to lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from simulator.errors import UsageError
from simulator.units import parse_duration, parse_rate, parse_share, parse_size

_COUNT_MAX = 2**32 - 1
_PARSERS: Mapping[str, Callable[[object, str], float]] = {
    "duration": parse_duration,
    "size": parse_size,
    "rate": parse_rate,
    "share": parse_share,
}


@dataclass(frozen=True)
class FaultValue:
    """What the key of a fault takes.

    Attributes:
        unit: `count`, `number`, or one of `simulator.units`: `duration`, `size`, `rate`, `share`, which have bounds
            of their own.
        least: the smallest number that makes sense, in seconds or bytes where it has a unit.
        most: the greatest.
        above: `least` itself is too small.
    """

    unit: str
    least: float = 0
    most: float = math.inf
    above: bool = False

    def read(self, key: str, value: object) -> float:
        """The number that a value stands for: a count, seconds, bytes, or bytes a second.

        Raises:
            UsageError: it is not understood, or lies outside; the message says what is accepted.
        """
        number = _PARSERS[self.unit](value, key) if self.unit in _PARSERS else self._number(key, value)
        # Written so that no number, which compares with nothing, lies outside.
        if not (self.least < number if self.above else self.least <= number) or not number <= self.most:
            raise UsageError(f"{key}={value} is out of range; give {self._accepted}")
        return number

    def _number(self, key: str, value: object) -> float:
        try:
            # A count comes as an integer from a file and as text from the command line.
            number = float(value) if self.unit == "number" else int(value)  # type: ignore[call-overload,arg-type]
        except (TypeError, ValueError, OverflowError):
            number = -1
        broken = self.unit == "count" and isinstance(value, float)
        if isinstance(value, bool) or number < 0 or broken:
            raise UsageError(f"{key}={str(value)[:80]!r} is not a {self.unit} from 0, nor a range such as 10..20")
        if self.unit == "count" and number > _COUNT_MAX:
            raise UsageError(f"{key}={str(value)[:80]} is out of range; give {_COUNT_MAX} or less")
        return float(number)

    @property
    def _accepted(self) -> str:
        unit = {"duration": "s", "size": "B", "rate": "B/s"}.get(self.unit, "")
        least = f"more than {self.least:g}{unit}" if self.above else f"{self.least:g}{unit}"
        if self.most < math.inf:
            return f"{least} {'and at most' if self.above else 'to'} {self.most:g}{unit}"
        return least if self.above else f"{least} or more"


_SOME_TIME = FaultValue("duration", above=True)

UNITS: Mapping[str, FaultValue] = {
    "step": FaultValue("count"),
    "until": FaultValue("count", 1),
    "nth": FaultValue("count", 1),
    "incarnation": FaultValue("count"),
    "connections": FaultValue("count", 1),
    # A loop, or flapping, has two rounds or more.
    "times": FaultValue("count", 2),
    "bit": FaultValue("count"),
    "element": FaultValue("count"),
    "replica": FaultValue("count"),
    "code": FaultValue("count", 1, 255),
    "seed": FaultValue("count"),
    "factor": FaultValue("number", 1, 1e6, above=True),
    "bytes": FaultValue("size", 1),
    "size": FaultValue("size"),
    "rate": FaultValue("rate"),
    "loss": FaultValue("share"),
    "time": FaultValue("duration"),
    "duration": _SOME_TIME,
    "restart": FaultValue("duration"),
    "grace": FaultValue("duration"),
    "per_step": _SOME_TIME,
    "period": _SOME_TIME,
    "up": _SOME_TIME,
    # The probe that proves it takes 250 ms of it.
    "down": FaultValue("duration", 0.3),
    "delay": _SOME_TIME,
    "jitter": _SOME_TIME,
}
"""What each key takes, unless its kind says otherwise in `Fault.values`; a range such as `10..20` has two of it."""


def ends_of(key: str, value: object, known: FaultValue) -> tuple[float, float]:
    """The least and the greatest number of a range such as `10..20`; of what is no range, the same one twice.

    Raises:
        UsageError: one of them is not understood or lies outside, or the range ends before it begins.
    """
    low, dots, high = value.partition("..") if isinstance(value, str) else ("", "", "")
    if not dots:
        number = known.read(key, value)
        return number, number
    first, last = known.read(key, low), known.read(key, high)
    if first > last:
        raise UsageError(f"{key}={value!r} is a range that ends before it begins")
    return first, last
