"""Names the line of a program that made a run differ from its reference."""

from __future__ import annotations

from harness.judging.culprit.average_line import averaged_by
from harness.judging.culprit.draw_line import drawn_by
from harness.judging.culprit.find import WrongReport, find_culprit
from harness.judging.culprit.layout_line import packed_by
from harness.judging.culprit.pipeline_line import fed_by
from harness.judging.culprit.protocol import Culprit, Looked, NoCulprit
from harness.judging.culprit.watch_selection import next_look

__all__ = [
    "Culprit",
    "Looked",
    "NoCulprit",
    "WrongReport",
    "averaged_by",
    "drawn_by",
    "fed_by",
    "find_culprit",
    "next_look",
    "packed_by",
]
