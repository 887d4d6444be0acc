"""Multisets of integers as arrays: counting and comparing them without a Python object for each element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Ints = np.ndarray[Any, np.dtype[np.int64]]
    Mask = np.ndarray[Any, np.dtype[np.bool_]]
else:
    Ints = Mask = Any


def elements(of: Iterable[int] | Mapping[int, int]) -> Ints:
    """The ids of an iterable, or each key of a mapping as often as its value says.

    Raises:
        TypeError: they are not integers.
    """
    import numpy as np

    if isinstance(of, Mapping):
        keys = np.asarray(list(of), np.int64)
        return np.repeat(keys, np.asarray(list(of.values()), np.int64))
    array = of if isinstance(of, np.ndarray) else np.asarray(list(of))
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"examples are integer ids, not {array.dtype}")
    return array.ravel().astype(np.int64)


def counted(ids: Ints) -> Counter[int]:
    """How often each id occurs."""
    import numpy as np

    keys, counts = np.unique(ids, return_counts=True)
    return Counter(dict(zip(keys.tolist(), counts.tolist(), strict=True)))


def differing(ours: tuple[Ints, Ints], truth: tuple[Ints, Ints]) -> tuple[Ints, Ints, Ints, Ints]:
    """Where two lists of (group, id) differ as multisets, sorted by group and id.

    Returns:
        group, id, how often in `ours`, how often in `truth`; one row for each pair that does not occur equally often.
    """
    import numpy as np

    size = len(ours[0])
    group, ids = (np.concatenate(pair) for pair in zip(ours, truth, strict=True))
    (groups, group_code), (keys, key_code) = (_codes(array) for array in (group, ids))
    codes = group_code * max(1, len(keys)) + key_code
    mine, other = np.sort(codes[:size]), np.sort(codes[size:])
    # Two sorted runs, which a stable sort merges in linear time; np.unique would hash them.
    merged = np.sort(np.concatenate(_without_common_ends(mine, other)), kind="stable")
    suspects = merged[np.diff(merged, prepend=merged[:1] - 1) != 0]
    seen, expected = (_occurrences(suspects, among) for among in (mine, other))
    wrong = np.flatnonzero(seen != expected)
    at = suspects[wrong]
    return groups[at // max(1, len(keys))], keys[at % max(1, len(keys))], seen[wrong], expected[wrong]


def _without_common_ends(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Two sorted arrays without what they begin and end with in common: little is left where they hardly differ."""
    import numpy as np

    for _ in range(2):
        length = min(len(a), len(b))
        apart = np.flatnonzero(a[:length] != b[:length])
        start = int(apart[0]) if len(apart) else length
        a, b = a[start:][::-1], b[start:][::-1]
    return a, b  # turned round twice


def _occurrences(values: Ints, among: Ints) -> Ints:
    """How often each value occurs in a sorted array."""
    import numpy as np

    return np.searchsorted(among, values, "right") - np.searchsorted(among, values, "left")


def _codes(values: Ints) -> tuple[Ints, Ints]:
    """A table of values and each value's place in it; the table of a dense range holds all of the range."""
    import numpy as np

    if not len(values):
        return values, values
    low, high = int(values.min()), int(values.max())
    if high - low <= 4 * len(values):
        return np.arange(low, high + 1), values - low
    keys, codes = np.unique(values, return_inverse=True)
    return keys, codes.astype(np.int64)
