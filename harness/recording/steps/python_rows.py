"""Does what Python draws for an example depend on the examples beside it?

Noise on rows that were centred by their own mean hides that mean: all of it is a draw. So Python is called again, with
all rows and with those of each replica, from the same random generators. Most functions give the same both ways, for
their rows are drawn one after another. Else the mean difference of many calls tells: noise of its own does not move it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.float64]]

Call = Callable[[Sequence[Any]], "list[Any] | None"]

_SAMPLES = 64
_SAMPLES_MIN = 16
_SECONDS = 2.0
"""A slow function is called less often, and too slow a one is not judged by its means."""
_DEVIATIONS = 8.0
"""By chance the means of one number in 10^12 are so far from each other."""
_NUMBERS_MAX = 64
"""Of a row no more are looked at."""
_ROUNDING = 1e-5


def depends_on_others(
    call: Call, arguments: Sequence[Any], sizes: Sequence[int], number: int, saved: Callable[[], Callable[[], None]]
) -> bool:
    """Whether a result for a row is another one, in its mean, where the rows of other replicas are beside it.

    Args:
        call: the function; it gives None where it raises.
        arguments: arrays, with the rows of all replicas.
        sizes: how many rows each replica has.
        number: of the result, floats whose first axis is of rows.
        saved: notes the state of the random generators that it uses; what it gives sets them back.
    """
    import numpy as np

    pieces = list(_split(arguments, sizes))
    if not pieces or len(sizes) < 2 or not all(sizes):
        return False

    def difference() -> Floats | None:
        restore = saved()
        whole = _numbers(call(arguments), number, sum(sizes))
        restore()
        parts = [_numbers(call(piece), number, size) for piece, size in zip(pieces, sizes, strict=True)]
        known = [part for part in parts if part is not None]
        if whole is None or len(known) < len(parts):
            return None
        joined = np.concatenate(known)
        scale = np.abs(whole).max(initial=0.0)
        return (joined - whole) / scale if joined.shape == whole.shape and scale else None

    first = difference()
    return first is not None and bool((np.abs(first) > _ROUNDING).any()) and _is_off(difference)


def _split(arguments: Sequence[Any], sizes: Sequence[int]) -> Iterator[list[Any]]:
    """The arguments of each replica; nothing if none of them is of rows."""
    import numpy as np

    rows = [np.ndim(each) > 0 and len(each) == sum(sizes) for each in arguments]
    ends = np.cumsum(sizes)
    for start, end in zip(ends - sizes, ends, strict=True) if any(rows) else ():
        yield [each[start:end] if cut else each for each, cut in zip(arguments, rows, strict=True)]


def _numbers(found: Sequence[Any] | None, number: int, rows: int) -> Floats | None:
    import numpy as np

    if found is None or number >= len(found) or found[number].ndim < 1 or len(found[number]) != rows:
        return None
    return np.asarray(found[number].reshape(rows, -1)[:, :_NUMBERS_MAX], np.float64)


def _is_off(difference: Callable[[], Floats | None]) -> bool:
    """Whether the mean of differences, as parts of the largest number, is not zero."""
    import numpy as np

    samples: list[Floats] = []
    end = time.monotonic() + _SECONDS
    while len(samples) < _SAMPLES and time.monotonic() < end:
        if (found := difference()) is None:
            return False
        samples.append(found)
    if len(samples) < _SAMPLES_MIN:
        return False
    every = np.stack(samples)
    spread = np.sqrt(every.var(0, ddof=1) / len(samples))
    return bool((np.abs(every.mean(0)) > _DEVIATIONS * spread + _ROUNDING).any())
