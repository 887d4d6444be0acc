"""The answer of a probe, as immutable data that turns into JSON as it is."""

from __future__ import annotations

from typing import Any

import msgspec


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a machine has or lacks.

    `detail` is what was found, or why it is missing; `cost` is what a user cannot do without it; `remedy` is what to do
    next. The last two are empty where it is available.
    """

    name: str
    available: bool
    detail: str
    cost: str
    remedy: str


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `probe` found on this machine.

    `cores` is what a process here may use: the CPUs of its affinity mask (`cores_affinity`), or less where a control
    group limits their time (`cores_quota`, None without a limit). `memory_bytes` is the smaller of installed memory and
    the limit of the control group. Versions are None for distributions that are not installed.
    """

    platform: str
    python: str
    tensorflow: str | None
    keras: str | None
    tf_keras: str | None
    cores: float
    cores_affinity: int
    cores_quota: float | None
    memory_bytes: int
    gpus: tuple[str, ...]
    tpus: tuple[str, ...]
    items: tuple[Capability, ...]

    def __getitem__(self, name: str) -> Capability:
        """Return the capability called `name`.

        Raises:
            KeyError: if there is none; the message lists the names that exist.
        """
        for item in self.items:
            if item.name == name:
                return item
        raise KeyError(f"no capability {name!r}; there are {', '.join(item.name for item in self.items)}")

    @property
    def missing(self) -> tuple[Capability, ...]:
        """What this machine lacks, in the order probed."""
        return tuple(item for item in self.items if not item.available)

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries, lists, strings and numbers."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields
