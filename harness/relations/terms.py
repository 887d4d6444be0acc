"""The values of the one-device step as terms: two are equal where their terms are, however the program came to them.

A term is what an operation gives, given terms; sums, products and constant factors are put in a normal form, so that a
value is always a rational multiple of a term. Equal numbers mean equal terms only where they are equal for every input:
terms are compared by their form and by nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from typing import Any

Scaled = tuple[Fraction, int]
"""A rational multiple of a term."""

ONE, ROWS = 0, 1
"""The constant 1, and the number of examples in the whole batch."""
ZERO: Scaled = (Fraction(0), ONE)

_DENOMINATOR_MAX = 1 << 14


class Terms:
    """Keeps each term once, and knows it by a number."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {("one",): ONE, ("rows",): ROWS}
        self._keys: list[tuple[Hashable, ...]] = [("one",), ("rows",)]

    def __len__(self) -> int:
        return len(self._keys)

    def made(self, *key: Hashable) -> int:
        """The term with this form."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return number

    def form(self, term: int) -> tuple[Hashable, ...]:
        """Of what it is made."""
        return self._keys[term]

    def added(self, values: Iterable[Scaled]) -> Scaled:
        """A sum, in which the order does not count; the coefficient of its first term is taken out."""
        counts: dict[int, Fraction] = {}
        for scale, term in values:
            form = self._keys[term]
            parts: Any = form[1:] if form[0] == "+" else ((term, Fraction(1)),)
            for part, factor in parts:
                counts[part] = counts.get(part, Fraction(0)) + scale * factor
        left = sorted((part, count) for part, count in counts.items() if count)
        if not left:
            return ZERO
        first = left[0][1]
        if len(left) == 1:
            return first, left[0][0]
        return first, self.made("+", *((part, count / first) for part, count in left))

    def summands(self, term: int) -> set[int]:
        """Of which terms a sum is one; of anything else itself."""
        form: Any = self._keys[term]
        return {part for part, _ in form[1:]} if form[0] == "+" else {term}

    def multiplied(self, values: Sequence[Scaled]) -> Scaled:
        """A product, element by element, in which the order does not count."""
        scale = Fraction(1)
        factors: list[Any] = []
        for each, term in values:
            scale *= each
            form = self._keys[term]
            factors += list(form[1:]) if form[0] == "*" else [term]
        if not scale:
            return ZERO
        left = sorted(factor for factor in factors if factor != ONE)
        if not left:
            return scale, ONE
        return scale, left[0] if len(left) == 1 else self.made("*", *left)

    def divided(self, kind: str, above: Scaled, below: Scaled) -> Scaled | None:
        """A quotient, element by element; None for one by the constant 0."""
        if not below[0]:
            return None
        scale = above[0] / below[0]
        if not scale:
            return ZERO
        return (scale, above[1]) if below[1] == ONE else (scale, self.made(kind, above[1], below[1]))


def rational(value: float, rounded: Callable[[float], float]) -> Fraction | None:
    """A number as a fraction: the simple one that it was before it was rounded, if there is one.

    Args:
        value: what the number is now.
        rounded: how one of its dtype is rounded; what a simple fraction has to become to be taken for the number.
    """
    if not math.isfinite(value):
        return None
    exact = Fraction(value)
    simple = exact.limit_denominator(_DENOMINATOR_MAX)
    return simple if simple and rounded(float(simple)) == value else exact
