"""How messages list things: `a`, `a and b`, `a, b and c`."""

from __future__ import annotations

from collections.abc import Sequence


def joined(texts: Sequence[str]) -> str:
    """These, of which there is at least one, with commas and an "and" before the last."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def first_ones(texts: Sequence[object], most: int) -> str:
    """So many of these at most, with commas, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(map(str, texts[:most])) + more
