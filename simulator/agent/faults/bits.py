"""One number of an array, changed by a bit or to NaN."""

from __future__ import annotations

from typing import Any


def changed(value: Any, element: int, bit: int) -> tuple[Any, dict[str, Any]]:
    """A copy with NaN (`bit` -1), or one bit turned over, at a flat index; and what was there before and after."""
    import numpy as np

    other = np.array(value)
    flat = other.reshape(-1)
    place = element % flat.size
    before = flat[place]
    if bit < 0:
        flat[place] = np.nan
    else:
        raw = flat[place : place + 1].view(f"u{flat.dtype.itemsize}")
        raw ^= np.array(1 << bit % (8 * flat.dtype.itemsize), raw.dtype)
    # As text: JSON has no NaN and would round.
    return other, {"element": place, "before": repr(before.item()), "after": repr(flat[place].item())}
