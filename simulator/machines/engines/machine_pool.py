"""Machines that stay reached from one cluster to the next: to reach them, and TensorFlow's import, takes seconds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from simulator.machines.engines.sites import Sites
from simulator.machines.far.machine import FarMachine

_Key = tuple[object, ...]


@dataclass
class _Kept:
    """Engines of one kind that nobody uses now, while so many want them kept."""

    wanted: int = 0
    idle: list[Sites] = field(default_factory=list)


_KEPT: dict[_Key, _Kept] = {}


@contextlib.contextmanager
def keeping(engine: Sites) -> Iterator[None]:
    """Within this context machines that a cluster of this process has reached so are there for the next one.

    Not where files are sent: each cluster begins with those, and with nothing that an earlier one has written.
    """
    if engine.files != "shared":
        yield
        return
    key = engine.key
    kept = _KEPT.setdefault(key, _Kept())
    kept.wanted += 1
    try:
        yield
    finally:
        kept.wanted -= 1
        if not kept.wanted:
            del _KEPT[key]
            for idle in kept.idle:
                idle.__exit__()


@contextlib.contextmanager
def reached(engine: Sites) -> Iterator[Sequence[FarMachine]]:
    """The machines of an engine; kept ones if there are any.

    Raises:
        MachinesUnavailable, UsageError: as of `Sites`.
    """
    key = engine.key
    idle = _KEPT[key].idle if engine.files == "shared" and key in _KEPT else []
    taken = idle.pop() if idle else engine
    if taken is engine:
        taken.__enter__()
    try:
        yield taken.machines
    finally:
        kept = _KEPT.get(key) if taken.files == "shared" else None
        if kept is not None and all(machine.there for machine in taken.machines):
            kept.idle.append(taken)
        else:
            taken.__exit__()
