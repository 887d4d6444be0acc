"""Durations, sizes and rates as people write them: `20ms`, `64KiB`, `100MB/s`."""

from __future__ import annotations

import re
from decimal import Decimal

from simulator.errors import UsageError

_SHOWN_MAX = 80
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
# What is beyond these is a slip of the pen. Besides, waits in the kernel end at 24 days, and its counters at 64 bits.
DURATION_SECONDS_MAX = 7 * 24 * 3600
SIZE_BYTES_MAX = 2**50
SHARE_MIN = 1e-8
RATE_BYTES_MAX = 10**12
# Networks are also sold in bits.
_BITS = {"kbit/s": 125, "Mbit/s": 125 * 10**3, "Gbit/s": 125 * 10**6}


def parse_duration(text: object, what: str = "duration") -> float:
    """Seconds of `20ms`, `1.5s`, `300us`, `2m` or `1h`.

    Raises:
        UsageError: anything else, also a number without a unit, and more than 168h.
    """
    number, unit = _split(text)
    if unit not in _SECONDS:
        raise UsageError(
            f"{what} {_shown(text)} is not understood; write a number and us, ms, s, m or h, for example 20ms or 1.5s"
        )
    seconds = number * _SECONDS[unit]
    if seconds > DURATION_SECONDS_MAX:
        raise UsageError(f"{what} {_shown(text)} is longer than any run; give 168h or less")
    return float(seconds)


def parse_share(text: object, what: str = "share") -> float:
    """The part of `1%` or `0.5%`: at least a hundred-millionth, and at most 1.

    Raises:
        UsageError: anything else, also a number without a percent sign.
    """
    number = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)%", text) if isinstance(text, str) else None
    share = float(number[1]) / 100 if number else 0.0
    if not SHARE_MIN <= share <= 1:
        raise UsageError(f"{what} {_shown(text)} is not understood; write a percentage, for example 1% or 0.5%")
    return share


def parse_size(text: object, what: str = "size") -> int:
    """Bytes of `64KiB`, `100MB` or `1B`.

    Raises:
        UsageError: anything else, also a number without a unit, a part of a byte, and more than 2**50 bytes.
    """
    number, unit = _split(text)
    size = number * _BYTES.get(unit, 0)
    if size > SIZE_BYTES_MAX:
        raise UsageError(f"{what} {_shown(text)} is more than any run has; give {SIZE_BYTES_MAX // 2**30}GiB or less")
    if unit not in _BYTES or size % 1:
        raise UsageError(
            f"{what} {_shown(text)} is not understood; write a number and {', '.join(_BYTES)}, for example 64KiB or "
            "100MB"
        )
    return int(size)


def parse_rate(text: object, what: str = "rate") -> float:
    """Bytes a second of `100MB/s`, `64KiB/s` or `1Gbit/s`; one or more.

    Raises:
        UsageError: anything else, also more than 1000GB/s.
    """
    number, unit = _split(text)
    rate = number * {**{f"{name}/s": factor for name, factor in _BYTES.items()}, **_BITS}.get(unit, 0)
    if rate > RATE_BYTES_MAX:
        raise UsageError(f"{what} {_shown(text)} is more than any link has; give {RATE_BYTES_MAX // 10**9}GB/s or less")
    if rate < 1:
        raise UsageError(
            f"{what} {_shown(text)} is not understood; write a number above zero and a unit, for example 100MB/s, "
            "64KiB/s or 1Gbit/s"
        )
    return float(rate)


def format_size(count: float) -> str:
    """`1.5MB` for 1 500 000, with powers of ten."""
    for unit in ("GB", "MB", "kB"):
        if count >= _BYTES[unit]:
            return f"{count / _BYTES[unit]:.4g}{unit}"
    return f"{count:.4g}B"


def _shown(text: object) -> str:
    """What was given, in an error message, which a page of digits would hide."""
    shown = repr(text)
    return shown if len(shown) <= _SHOWN_MAX else f"{shown[:_SHOWN_MAX]}..."


def _split(text: object) -> tuple[Decimal, str]:
    # Not float: 1.001kB is 1001 bytes.
    match = _NUMBER.fullmatch(text.strip()) if isinstance(text, str) else None
    return (Decimal(match[1]), match[2]) if match else (Decimal(0), "")
