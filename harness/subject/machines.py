"""The machines on which the tasks of a verified run are; its reference is always here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec

from simulator import UsageError

OVER_VARIABLE = "LOCKSTEP_OVER"
"""Where clusters of strategies are by default in this process and those that it starts; see `Over.by_default`."""


class OnMachines(TypedDict, total=False):
    """Keyword arguments of `harness.verify`: where the run's tasks are, as of `simulator.Cluster`.

    Attributes:
        machines: `COMMAND {}:NAME,NAME`.
        place: task to machine.
        files: `shared` or `ship`.
        machines_python: the interpreter there.
        machines_cable: a command that pulls the cable of one.
    """

    machines: str | None
    place: Mapping[str, str] | None
    files: str | None
    machines_python: str | None
    machines_cable: str | None


@dataclass(frozen=True)
class Over:
    """Where the tasks of a run are.

    Attributes:
        machines: as of `simulator.Cluster`, like all of these.
        place: pairs of a task and a machine.
        files: `shared` or `ship`; None for the default.
        python: the interpreter there; None for the path of this one.
        cable: a command that pulls the cable of one; None where nobody can.
    """

    machines: str
    place: tuple[tuple[str, str], ...] = ()
    files: str | None = None
    python: str | None = None
    cable: str | None = None

    @classmethod
    def of(
        cls,
        machines: str | None = None,
        place: Mapping[str, str] | None = None,
        files: str | None = None,
        machines_python: str | None = None,
        machines_cable: str | None = None,
    ) -> Over | None:
        """What was asked for; None for this machine alone.

        Raises:
            UsageError: something is asked of machines, and there are none.
        """
        if machines is not None:
            return cls(machines, tuple((place or {}).items()), files, machines_python, machines_cable)
        others = {"place": place, "files": files, "machines_python": machines_python, "machines_cable": machines_cable}
        for name, value in others.items():
            if value:
                raise UsageError(f"{name} is about machines; give machines as well: machines='ssh {{}}:m0,m1'")
        return None

    @classmethod
    def by_default(cls) -> Over | None:
        """What the environment variable says, which `pytest --machines` sets."""
        text = os.environ.get(OVER_VARIABLE)
        return msgspec.json.decode(text, type=cls) if text else None

    def as_default(self) -> str:
        """The value of that variable."""
        return msgspec.json.encode(self).decode()

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of `simulator.Cluster`."""
        return {
            "machines": self.machines,
            "place": dict(self.place),
            "files": self.files,
            "python": self.python,
            "cable": self.cable,
        }
