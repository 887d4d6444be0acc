"""What a plan leaves open, drawn from its seed: ranges such as `10..20` and tasks such as `worker:?`."""

from __future__ import annotations

import fnmatch
import random

from simulator.errors import UsageError
from simulator.faults.values import Value, ends_of
from simulator.topology import Topology

__all__ = ["draw_tasks", "draw_value"]


def draw_value(key: str, value: object, known: Value | None, stream: random.Random) -> object:
    """One value of a range, both ends included; what is no range is checked and returned as it is.

    Args:
        key: of the fault.
        value: as it was given.
        known: what the key takes; None where nothing is drawn.
        stream: decides.

    Raises:
        UsageError: the value or an end of the range is not what the key takes.
    """
    if known is None or value is None:
        return value
    first, last = ends_of(key, value, known)
    if not (isinstance(value, str) and ".." in value):
        return value
    unit = known.unit
    if unit == "count":
        return stream.randint(int(first), int(last))
    if unit == "number":
        return round(stream.uniform(first, last), 3)
    if unit == "size":
        return f"{stream.randint(int(first), int(last))}B"
    if unit == "share":
        return f"{100 * stream.uniform(first, last):.6f}%"
    # Microseconds and bytes a second are fine enough, and their text is short and exact.
    drawn = stream.uniform(first, last)
    return f"{round(drawn * 1e6)}us" if unit == "duration" else f"{max(1, round(drawn))}B/s"


def draw_tasks(pattern: str, topology: Topology, stream: random.Random, what: str = "task") -> tuple[str, ...]:
    """The tasks that `worker:1`, `worker:*`, `*` or `worker:?` means; of the last, one is drawn.

    Raises:
        UsageError: there is no such task.
    """
    one = pattern.endswith("?")
    found = [task for task in topology.tasks if fnmatch.fnmatchcase(task, pattern[:-1] + "*" if one else pattern)]
    if not found:
        raise UsageError(f"{what}={pattern} matches no task; tasks are {', '.join(topology.tasks)}")
    return (stream.choice(found),) if one else tuple(found)
