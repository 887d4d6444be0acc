"""The line that lays out different copies as one tensor: it was seen, and no step has to be watched for it."""

from __future__ import annotations

import linecache

from harness.judging.culprit.protocol import Culprit
from simulator.agent.places import file_and_line

__all__ = ["layout_culprit"]


def layout_culprit(where: str, step: int) -> Culprit | None:
    """What there is to say of a line that packs copies which differ; None where it is not known."""
    if (found := file_and_line(where)) is None:
        return None
    file, line = found
    said = "the devices are given different copies of one tensor"
    return Culprit(
        file, line, linecache.getline(file, line).strip(), "pack", None, said, "expected equal ones", (), step
    )
