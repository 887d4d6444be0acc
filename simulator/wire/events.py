"""What a machine tells of the processes of tasks; from another machine in the same words.

Times are seconds of the monotonic clock of whoever tells: the run's own where no machine is between.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from simulator.wire.control import FromTask


class Who(NamedTuple):
    """One process of a run: its task, and which incarnation of that; its number means nothing elsewhere."""

    task: str
    incarnation: int


class Launched(msgspec.Struct, frozen=True, tag=True):
    """The process of a task has been started."""

    who: Who
    pid: int


class Greeted(msgspec.Struct, frozen=True, tag=True):
    """The agent of a task has connected itself."""

    who: Who
    pid: int


class Said(msgspec.Struct, frozen=True, tag=True):
    """A task says something."""

    who: Who
    message: FromTask


class Fenced(msgspec.Struct, frozen=True, tag=True):
    """A process of an incarnation that has been replaced has greeted, and is not heard."""

    who: Who
    pid: int


class NoMessage(msgspec.Struct, frozen=True, tag=True):
    """What is no message has come; from a process of `who`, or from a stranger."""

    who: Who | None
    pid: int
    why: str
    at: float


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The process of a task has ended.

    Attributes:
        who: of which task.
        code: its exit code, negative for a signal; None if that cannot be known, of which `Broke` tells before.
        at: when that was seen.
        half_said: that it had begun a message and not ended it, for the end of a sentence, or nothing.
    """

    who: Who
    code: int | None
    at: float
    half_said: str = ""


TaskEvent = Launched | Greeted | Said | Fenced | NoMessage | Ended
