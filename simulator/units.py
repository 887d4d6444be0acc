"""Durations, sizes and rates as people write them: `20ms`, `64KiB`, `100MB/s`."""

from __future__ import annotations

import re
from decimal import Decimal

from simulator.errors import UsageError

__all__ = [
    "format_duration",
    "format_rate",
    "format_size",
    "parse_duration",
    "parse_rate",
    "parse_share",
    "parse_size",
]

_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z/]+)")
_SECONDS = {"us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600)}
_BYTES = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
# Networks are also sold in bits.
_BITS = {"kbit/s": 125, "Mbit/s": 125 * 10**3, "Gbit/s": 125 * 10**6}


def parse_duration(text: object, what: str = "duration") -> float:
    """Seconds of `20ms`, `1.5s`, `300us`, `2m` or `1h`.

    Raises:
        UsageError: anything else, also a number without a unit.
    """
    number, unit = _split(text)
    if unit not in _SECONDS:
        raise UsageError(
            f"{what} {text!r} is not understood; write a number and us, ms, s, m or h, for example 20ms or 1.5s"
        )
    return float(number * _SECONDS[unit])


def parse_share(text: object, what: str = "share") -> float:
    """The part of `1%` or `0.5%`: more than 0 and at most 1.

    Raises:
        UsageError: anything else, also a number without a percent sign.
    """
    number = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)%", text) if isinstance(text, str) else None
    share = float(number[1]) / 100 if number else 0.0
    if not 0 < share <= 1:
        raise UsageError(f"{what} {text!r} is not understood; write a percentage, for example 1% or 0.5%")
    return share


def parse_size(text: object, what: str = "size") -> int:
    """Bytes of `64KiB`, `100MB` or `1B`.

    Raises:
        UsageError: anything else, also a number without a unit, and a part of a byte.
    """
    number, unit = _split(text)
    size = number * _BYTES.get(unit, 0)
    if unit not in _BYTES or size % 1:
        raise UsageError(
            f"{what} {text!r} is not understood; write a number and {', '.join(_BYTES)}, for example 64KiB or 100MB"
        )
    return int(size)


def parse_rate(text: object, what: str = "rate") -> float:
    """Bytes a second of `100MB/s`, `64KiB/s` or `1Gbit/s`; more than zero.

    Raises:
        UsageError: anything else.
    """
    number, unit = _split(text)
    rates = {**{f"{name}/s": factor for name, factor in _BYTES.items()}, **_BITS}
    if unit not in rates or number == 0:
        raise UsageError(
            f"{what} {text!r} is not understood; write a number above zero and a unit, for example 100MB/s, 64KiB/s or "
            "1Gbit/s"
        )
    return float(number * rates[unit])


def format_duration(seconds: float) -> str:
    """The shortest of `300us`, `20ms` and `1.5s` that says it."""
    if seconds >= 1 or seconds == 0:
        return f"{seconds:.4g}s"
    return f"{seconds * 1e3:.4g}ms" if seconds >= 1e-3 else f"{seconds * 1e6:.4g}us"


def format_size(count: float) -> str:
    """`1.5MB` for 1 500 000, with powers of ten."""
    for unit in ("GB", "MB", "kB"):
        if count >= _BYTES[unit]:
            return f"{count / _BYTES[unit]:.4g}{unit}"
    return f"{count:.4g}B"


def format_rate(bytes_per_second: float) -> str:
    """`100MB/s` for 1e8."""
    return f"{format_size(bytes_per_second)}/s"


def _split(text: object) -> tuple[Decimal, str]:
    # Not float: 1.001kB is 1001 bytes.
    match = _NUMBER.fullmatch(text.strip()) if isinstance(text, str) else None
    return (Decimal(match[1]), match[2]) if match else (Decimal(0), "")
