"""The loss of a step, where what a call returned says it without being asked for much: a single number."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["loss_of"]

# Reading a number from a GPU waits for everything that was begun there.
_APART_SECONDS = 1.0
_last = [0.0]


def loss_of(returned: Any) -> float | None:
    """The number in what a training step returned, or in the logs of `fit`; `None` if it is not plain which one it is.

    Args:
        returned: a scalar tensor or number, a mapping with the key `loss`, or a sequence that begins with one.
    """
    if isinstance(returned, dict):
        returned = returned.get("loss")
    elif isinstance(returned, (list, tuple)):
        returned = returned[0] if returned else None
    if returned is None or isinstance(returned, (bool, int, str, bytes)):
        return None
    if isinstance(returned, float):
        return returned
    try:
        dtype, shape = returned.dtype, returned.shape
        if len(shape) or not getattr(dtype, "is_floating", getattr(dtype, "kind", "") == "f"):
            return None
        if "GPU" in str(getattr(returned, "device", "")):
            now = time.monotonic()
            if now - _last[0] < _APART_SECONDS:
                return None
            _last[0] = now
        return float(returned)
    except Exception:  # noqa: BLE001 - whatever the program returns, it must not notice that somebody looked
        return None
