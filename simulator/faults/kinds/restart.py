"""A task that its scheduler starts again, for no reason of its own: killed, and back as a new incarnation."""

from __future__ import annotations

from typing import ClassVar

from simulator.faults.kinds.kill import Kill


class Restart(Kill, tag="restart", kw_only=True, frozen=True):
    """`kill` that comes back at once unless `restart` says later. Proof: exit by SIGKILL, and the new incarnation."""

    restart: str | None = "0s"

    cause: ClassVar[str] = "software"
    strikes_many: ClassVar[bool] = False


KIND = Restart
