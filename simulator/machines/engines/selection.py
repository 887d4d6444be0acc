"""Which way to machines was asked for."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from simulator.errors import UsageError
from simulator.machines.engines.command import Commands
from simulator.machines.engines.ray import RayNodes
from simulator.machines.engines.sites import Sites, words_of
from simulator.machines.far.checks import FILES


def engine_of(
    machines: str | None,
    *,
    place: Mapping[str, str] | None = None,
    files: str | None = None,
    python: str | None = None,
    cable: str | None = None,
) -> Sites | None:
    """The engine that was asked for; None for this machine alone.

    Raises:
        UsageError: it is not understood, or something is asked of machines where there are none.
    """
    if machines is None:
        for name, value in (("place", place), ("files", files), ("python", python), ("cable", cable)):
            if value:
                raise UsageError(f"{name} is about machines; give machines as well: machines='ssh {{}}:m0,m1'")
        return None
    if cable is not None and "{}" not in cable:
        raise UsageError(f"--machines-cable {cable!r} is not understood; write a command with {{}} for the name")
    kind = RayNodes if RayNodes.meant(machines) else Commands
    return kind.parse(
        machines,
        files=files or FILES[0],
        python=python or sys.executable,
        cable=None if cable is None else words_of(cable, "--machines-cable"),
    )
