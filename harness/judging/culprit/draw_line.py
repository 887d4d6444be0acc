"""The line of a draw that is wrong by itself, which was seen while the run was followed: no step has to be watched."""

from __future__ import annotations

import linecache

from harness.evidence.trace import DrawSeen
from harness.judging.culprit.protocol import Culprit
from simulator.agent.places import file_and_line

__all__ = ["draw_culprit"]

_EXPECTED = {
    "equal": "expected other numbers for other examples",
    "again": "expected other numbers than were drawn before",
    "unlike": "expected numbers from the distribution that one device draws from",
}


def draw_culprit(draw: DrawSeen, step: int) -> Culprit | None:
    """What there is to say of a draw; None where its line is not known.

    Args:
        draw: one that is wrong.
        step: at which it was seen.
    """
    if (found := file_and_line(draw.where)) is None:
        return None
    file, line = found
    source = linecache.getline(file, line).strip()
    return Culprit(file, line, source, draw.operation, None, draw.text, _EXPECTED[draw.kind], (), step)
