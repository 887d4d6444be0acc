"""A tensor as a whole: by which factor it is what it should be, and how much of it no factor explains.

Rounding moves each element by itself, and averages out over many of them; a factor, a term that is missing and an
example too many do not. So two numbers of a tensor show what the bounds of its elements, in 16 bits, do not::

    factor = <o, r> / <r, r>          o is what was observed, r the reference's
    rest   = |o - factor r| / |r|

Their bounds come from the same reruns as those of elements. With d_p what a rerun differs by from the reference and
own_i the roundings of the value itself::

    v_i = mean over reruns of d_p,i^2 + own_i^2
    s   = sqrt(sum r_i^2 v_i) / |r|^2               how far independent noise moves the factor
    s_p = |<d_p, r>| / |r|^2                        how far each rerun has moved it

A correct run deviates by half of the noise at most (see `K`). s is a root of a mean over as many draws as there are
reruns, each of as many parts as elements count, so that what deviates by s / 2 is off by more than s / 2 times the
quantile of Student's t for so many draws once in a million. Of many elements that is 2.5 s, where K is for what is
known from a few draws. Where noise moves elements together, as one scale does that all have in common, some s_p is far
larger than s, and TOGETHER times the largest counts.

The rest is a length, and of many parts known as such: a correct run has half of the longest rerun's. Parts are as many
as there are elements that count, and no more than ways in which noise moves them: two reruns are at right angles if
these are many. Of few parts each may be off as a factor may.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]
else:
    Floats = Any


TOGETHER = 4.0
REST = 1.0
FINEST = 2.0**-13
"""In 32 bits elements say more, and what reruns show of a whole is too little to be sure of its last digits."""
MANY = 16
"""Independent parts from which on the length of them all is known better than any of them."""
_BEYOND = 2.0
"""Times s: of independent noise one draw of twenty is further off."""
_Z = 4.9
"""What a normal number is beyond, of either sign, once in a million."""


@dataclass(frozen=True)
class WholeTensor:
    """What a tensor is of the reference's, and how far each number may be off.

    Attributes:
        factor: see above.
        rest: see above.
        factor_bound: how far the factor may be from 1.
        rest_bound: how large the rest may be.
        size: of the reference's tensor, the root of the sum of squares.
        moved: what reruns differ by, as a part of that.
        own: what rounding does to each element by itself, as a part of that.
    """

    factor: float
    rest: float
    factor_bound: float
    rest_bound: float
    size: float
    moved: float = 0.0
    own: float = 0.0

    @property
    def factor_ratio(self) -> float:
        """Error over bound of the factor."""
        return _ratio(abs(self.factor - 1.0), self.factor_bound)

    @property
    def rest_ratio(self) -> float:
        """The same of the rest."""
        return _ratio(self.rest, self.rest_bound)

    @property
    def ratio(self) -> float:
        """The larger of both."""
        return max(self.factor_ratio, self.rest_ratio)

    @property
    def share(self) -> float:
        """An error that is at least such a part of the tensor would have been found."""
        found: float = (self.factor_bound**2 + self.rest_bound**2) ** 0.5
        return found


def whole(observed: Floats, expected: Floats, draws: Sequence[Floats], own: Floats) -> WholeTensor | None:
    """Hold a tensor against the reference's; None where that is zero, or something is not finite.

    Args:
        observed: what was observed.
        expected: what should have been.
        draws: what each rerun differs by from that.
        own: what rounding does to each element by itself.
    """
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        size = float(np.sum(expected * expected))
        along = float(np.sum(observed * expected))
        if not size or not np.isfinite([size, along]).all():
            return None
        factor = along / size
        rest = length(observed - factor * expected) / size**0.5
        if not np.isfinite(rest):
            return None
        variance = own * own + (np.mean([each * each for each in draws], axis=0) if draws else 0.0)
        together = max((abs(float(np.sum(each * expected))) / size for each in draws), default=0.0)
        moved = max((length(each) for each in draws), default=0.0) / size**0.5
        alone = length(own) / size**0.5
        weighed = expected * expected * variance
        spread = float(np.sum(weighed)) ** 0.5 / size
        factor_bound = _times(_parts(weighed), draws) * spread
        if together > _BEYOND * spread:
            factor_bound = max(factor_bound, TOGETHER * together)
        ways = min(_parts(variance), _ways(draws))
        rest_bound = (REST if ways >= MANY else _times(ways, draws)) * float(np.hypot(moved, alone))
    return WholeTensor(factor, rest, max(FINEST, factor_bound), max(FINEST, rest_bound), size**0.5, moved, alone)


def length(tensor: Floats) -> float:
    """The root of the sum of squares, by one thread: NumPy's `norm` starts several for little."""
    found: float = float((tensor * tensor).sum()) ** 0.5
    return found


def _times(parts: float, draws: Sequence[Floats]) -> float:
    """By how many times what was seen of so many parts a correct run may be off.

    The opposite of the first rerun is no other draw. Without reruns roundings are known, and not drawn. The quantile is
    Wallace's approximation, which is too large for few draws.
    """
    count = parts * max(1, len(draws) - 1) if draws else math.inf
    if math.isinf(count) or not count:
        return _Z / 2
    exponent = (_Z * (8 * count + 3) / (8 * count + 1)) ** 2 / count
    return math.sqrt(count * math.expm1(min(700.0, exponent))) / 2


def _parts(variances: Floats) -> float:
    """How many equal parts would add up as these do."""
    total = float(variances.sum())
    return total * total / float((variances * variances).sum()) if total else 0.0


def _ways(draws: Sequence[Floats]) -> float:
    """In how many ways reruns differ from the reference, as far as two or more can tell.

    The second one is the opposite of the first, and says nothing of that.
    """
    import numpy as np

    lengths = [length(each) for each in draws]
    kept = [each / size for each, size in zip(draws, lengths, strict=True) if size]
    kept = kept[:1] + kept[2:]
    alike = [float(np.sum(one * other)) ** 2 for one, other in itertools.combinations(kept, 2)]
    return 1 / max(float(np.mean(alike)), 1e-9) if alike else math.inf


def _ratio(error: float, bound: float) -> float:
    if not error:
        return 0.0
    return error / bound if bound else float("inf")
