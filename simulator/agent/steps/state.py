"""A digest of what a program trains: with what its first step begins, and what it has when it saves.

It tells from which save a process has gone on, whatever has restored it, and that one began from scratch. A few small
variables are enough for that, and cost nothing beside a save.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Sequence
from typing import Any

from simulator.agent.agent import Agent
from simulator.wire import control

_BYTES_MAX = 1 << 16
_DIGEST_BYTES = 6
"""As many bits as a number of JSON holds everywhere."""

_trained: list[Any] = []
_lock = threading.Lock()
_seen: list[bool] = []


def begins(agent: Agent, variables: Sequence[Any]) -> None:
    """Tell the parent once with what the first step begins: these are the variables of the first gradient.

    It is called before anything is made of that gradient, and while a function is traced, before it runs.
    """
    with _lock:
        if _seen:
            return
        _seen.append(True)
        with contextlib.suppress(Exception):  # of a kind that nobody has seen
            _trained.extend(_small(variables))
    if (state := digest()) is None:
        _trained.clear()
        return
    with contextlib.suppress(OSError):  # the run is over, or knows a later incarnation
        agent.send(control.Begins(state=state, at=time.monotonic()))


def digest() -> int | None:
    """Of the trained variables as they are; None where they are not known, or cannot be read."""
    if not _trained:
        return None
    import tensorflow as tf

    try:
        whole = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        with tf.init_scope():  # a function may be traced
            for variable in _trained:
                whole.update(variable.numpy().tobytes())
    except Exception:  # noqa: BLE001 - such as one that has no value before its function has run
        return None
    return int.from_bytes(whole.digest(), "big")


def _small(variables: Sequence[Any]) -> list[Any]:
    """Some of the smallest; of those that are mirrored the first copy."""
    first = [_first(each) for each in variables]
    sizes = {id(each): each.dtype.size * (each.shape.num_elements() or 0) for each in first if _is_here(each)}
    found, room = [], _BYTES_MAX
    for each in sorted((each for each in first if id(each) in sizes), key=lambda each: sizes[id(each)]):
        room -= sizes[id(each)]
        if room < 0:
            break
        found.append(each)
    return found


def _first(variable: Any) -> Any:
    """TensorFlow's own variable: that of one of Keras 3, and of one that is mirrored the first copy."""
    held = getattr(variable, "value", None)
    held = variable if held is None or callable(held) else held
    return getattr(held, "_primary", held)


def _is_here(variable: Any) -> bool:
    """Whether a read of it asks no other process, such as a parameter server."""
    return (
        hasattr(variable, "numpy") and hasattr(variable.shape, "num_elements") and "/job:ps" not in str(variable.device)
    )
