"""Names the line of a program that made a run differ from its reference."""

from __future__ import annotations

from harness.judging.culprit.by_hand import made_by_hand
from harness.judging.culprit.find import WrongReport, find_culprit
from harness.judging.culprit.known_lines import (
    argument_culprit,
    assignment_culprit,
    average_culprit,
    closure_culprit,
    draw_culprit,
    layout_culprit,
    mean_culprit,
    pipeline_culprit,
    restoring_culprit,
)
from harness.judging.culprit.protocol import Culprit, Looked, NoCulprit
from harness.judging.culprit.watch_selection import next_look

__all__ = [
    "Culprit",
    "Looked",
    "NoCulprit",
    "WrongReport",
    "argument_culprit",
    "assignment_culprit",
    "average_culprit",
    "closure_culprit",
    "draw_culprit",
    "find_culprit",
    "layout_culprit",
    "made_by_hand",
    "mean_culprit",
    "next_look",
    "pipeline_culprit",
    "restoring_culprit",
]
